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

// Countdowns: data-remaining-ms has the time that was left when the page was made.
const deadlines = new WeakMap();
function countDown() {
  for (const element of document.querySelectorAll("time[data-remaining-ms]")) {
    if (!deadlines.has(element)) deadlines.set(element, performance.now() + Number(element.dataset.remainingMs));
    const left = Math.max(0, Math.ceil((deadlines.get(element) - performance.now()) / 1000));
    const rest = String(left % 60).padStart(2, "0");
    element.textContent = left < 60 ? `${left} s` : `${Math.floor(left / 60)} min ${rest} s`;
  }
}
document.addEventListener("DOMContentLoaded", countDown);
document.addEventListener("htmx:afterSwap", countDown);
setInterval(countDown, 1000);

// Live parts: a hidden tab gives back its connection, of which a browser has six for all tabs of a server.
document.addEventListener("visibilitychange", () => {
  const step = document.hidden ? "htmx:beforeCleanupElement" : "htmx:afterProcessNode";
  for (const live of document.querySelectorAll("[sse-connect]")) {
    for (const element of [live, ...(document.hidden ? [] : live.querySelectorAll("[sse-swap]"))]) htmx.trigger(element, step);
  }
});

// Notifications: the button on /approvals asks for the permission, and every page tells when the badge grows.
const notify = document.getElementById("notify");
if (notify !== null && "Notification" in window && Notification.permission === "default") {
  notify.hidden = false;
  notify.addEventListener("click", async () => {
    await Notification.requestPermission();
    notify.hidden = true;
  });
}
function readWaiting() {
  const badge = document.getElementById("waiting");
  return badge === null ? 0 : Number(badge.dataset.count);
}
let lastWaiting = readWaiting();
document.addEventListener("htmx:afterSettle", () => {
  const waiting = readWaiting();
  const grows = waiting > lastWaiting;
  lastWaiting = waiting;
  if (!grows || !("Notification" in window) || Notification.permission !== "granted") return;
  try {
    const title = waiting === 1 ? "A request waits for your approval" : `${waiting} requests wait for your approval`;
    const shown = new Notification(title, { tag: "paddock-approvals", icon: "/static/icon.svg" });
    shown.addEventListener("click", () => {
      window.focus();
      location.assign("/approvals");
    });
  } catch {
    // Browsers of phones show notifications only for service workers, which the page has none of.
  }
});
