"""Draws what other systems take next to Paddock, as an SVG of the documentation."""

from pathlib import Path

from benchmarks.measure import Line

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.svg"


def draw(lines: list[Line]) -> None:
    """Write the lines of the section on other systems, called `WORK: SYSTEM`, as groups of bars."""
    import matplotlib as mpl  # half a second, for those who write the page alone

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "paddock", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot as plt

    works: dict[str, list[Line]] = {}
    for line in lines:
        works.setdefault(line.what.partition(": ")[0], []).append(line)
    figure, rows = plt.subplots(len(works), 1, figsize=(7, 5), layout="constrained")
    for axes, (work, members) in zip(rows, works.items(), strict=True):
        members.sort(key=lambda line: -line.value)
        names = [line.what.partition(": ")[2] for line in members]
        colours = ["#2a6f4e" if name.lower() == "paddock" else "#9aa5a0" for name in names]
        bars = axes.barh(names, [line.value for line in members], color=colours)
        axes.bar_label(bars, [f"{line.value:.3g} ms" for line in members], padding=3)
        axes.set_xscale("log")
        axes.set_title(work, loc="left", fontsize=9)
        axes.margins(x=0.15)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="x", labelbottom=False, which="both", length=0)
    figure.savefig(PAGE, metadata={"Date": None, "Creator": None}, facecolor="white")
