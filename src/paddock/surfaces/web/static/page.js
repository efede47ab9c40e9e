// What the pages need beyond htmx. Everything works without it.
"use strict";

// "copy" buttons: data-copy has the id of the element whose text is copied.
document.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("[data-copy]") : null;
  if (button === null) return;
  const source = document.getElementById(button.dataset.copy);
  if (source === null) return;
  navigator.clipboard.writeText(source.textContent).then(() => {
    const label = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = label), 1500);
  });
});
// They are hidden without script, and where the browser has no clipboard: on plain HTTP from another machine.
const showCopyButtons = (root) => {
  if (!navigator.clipboard) return;
  for (const button of root.querySelectorAll("[data-copy][hidden]")) button.hidden = false;
};
showCopyButtons(document);
document.addEventListener("htmx:load", (event) => showCopyButtons(event.detail.elt));
