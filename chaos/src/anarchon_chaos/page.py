"""
The report as one page that needs nothing else: a table, and a timeline of each scenario.

Instances are lanes, runs are bars in the lane of who executed them, and faults are bands over the lanes that they hit.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence

from anarchon_chaos.history import Body, Fault, History, bodies
from anarchon_chaos.running import Result
from anarchon_chaos.summary import bites, counted, percentile, summarise

__all__ = ["page"]

_At = Callable[[int], float]

_WIDTH = 1_000
_LABEL = 110
_BAR = 7
_GAP = 2
_PAD = 6
_BARS_SHOWN_MAX = 24
_PROBLEMS_SHOWN_MAX = 50

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --line: #d0d7de; --soft: #f3f5f7;
  --first: #2f6fde; --later: #0f9d6b; --cut: #b45309; --bad: #c62828; --band: #d9480f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0f1419; --line: #333c47; --soft: #182028;
  --first: #6ea0ff; --later: #45c795; --cut: #f0a44b; --bad: #ff7b72; --band: #ff8c4a; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 72rem; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; font-size: 1.15rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 0.87rem; }
th, td { padding: 0.3rem 0.6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:nth-child(-n+2), td:nth-child(-n+2), td:last-child, th:last-child { text-align: left; }
td:last-child { white-space: normal; min-width: 10rem; } .what { white-space: nowrap; }
.no { color: var(--bad); font-weight: 700; } .verdict { font-size: 1.1rem; font-weight: 600; }
svg { width: 100%; height: auto; background: var(--soft); border: 1px solid var(--line); border-radius: 4px; }
svg text { font: 11px system-ui, sans-serif; fill: var(--ink); }
.lane { stroke: var(--line); } .tick { stroke: var(--line); stroke-dasharray: 2 3; }
.ended.first { fill: var(--first); } .ended.later { fill: var(--later); } .cancelled { fill: var(--cut); }
.died, .unknown { fill: var(--bad); } .band { fill: var(--band); opacity: 0.2; } .edge { stroke: var(--band); }
.key { display: inline-block; width: 0.9em; height: 0.9em; vertical-align: -0.1em; border-radius: 2px;
  margin: 0 0.3em 0 1em; }
li { margin: 0.2rem 0; }
"""


def page(results: Sequence[Result], *, title: str) -> str:
    """
    Write the whole page. It loads nothing, and runs no script.
    """
    ordered = sorted(
        results, key=lambda result: (result.case.store.name, result.case.scenario.name)
    )
    held = sum(result.held for result in results)
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="icon" href="data:,">',
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{html.escape(title)}</h1>",
        f'<p class="verdict">{held} of {len(results)} scenarios held.</p>',
        _legend(),
        _table(ordered),
        *(_section(result) for result in ordered),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _legend() -> str:
    keys = (
        ("--first", "first attempt, ended"),
        ("--later", "later attempt, ended"),
        ("--cut", "cancelled"),
        ("--bad", "died with its process"),
        ("--band", "fault"),
    )
    return (
        "<p>Each lane is a process, each bar one execution of a handler."
        + "".join(
            f'<span class="what"><span class="key" style="background: var({name})"></span>{words}</span>'
            for name, words in keys
        )
        + "</p>"
    )


def _table(results: Sequence[Result]) -> str:
    heads = (
        "store",
        "scenario",
        "held",
        "runs",
        "executions per run",
        "overlap ms",
        "takeovers",
        "p50",
        "p99",
        "bound",
        "fenced",
        "missed",
        "faults seen to bite",
    )
    rows = []
    for result in results:
        each = summarise(result)
        p50, p99 = percentile(each.takeover_ms, 50), percentile(each.takeover_ms, 99)
        link = f'<a href="#{html.escape(result.case.name)}">{html.escape(each.scenario)}</a>'
        cells = [
            html.escape(each.store),
            link,
            "yes" if each.held else '<span class="no">NO</span>',
            str(each.runs),
            ", ".join(f"{count} x {times}" for times, count in each.executions.items()),
            f"{each.overlap_ms:.1f}",
            str(each.takeovers),
            "" if p50 is None else str(p50),
            "" if p99 is None else str(p99),
            str(each.bound_ms or ""),
            str(each.fenced),
            str(each.missed),
            html.escape(bites(each)),
        ]
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th>{name}</th>" for name in heads)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _section(result: Result) -> str:
    each = summarise(result)
    mark = "" if each.held else ' <span class="no">did not hold</span>'
    problems = "".join(
        f"<li>{html.escape(problem)}</li>" for problem in each.problems[:_PROBLEMS_SHOWN_MAX]
    )
    counts = "".join(f"<p>{html.escape(words)}.</p>" for words in counted(each))
    picture = "" if result.history is None else _timeline(result.history)
    return (
        f'<section id="{html.escape(result.case.name)}">'
        f"<h2>{html.escape(each.scenario)} on {html.escape(each.store)}{mark}</h2>"
        f"<p>{html.escape(each.says)}.</p>{counts}<ul>{problems}</ul>{picture}</section>"
    )


def _timeline(history: History) -> str:
    found = bodies(history)
    times = [body.since_ns for body in found] + [fault.since_ns for fault in history.faults]
    since_ns = min(times, default=history.begun_ns) - 500_000_000
    until_ns = max(
        [body.until_ns for body in found] + [fault.until_ns for fault in history.faults],
        default=history.ended_ns,
    )
    until_ns += 500_000_000
    scale = (_WIDTH - _LABEL - 10) / (until_ns - since_ns)

    def at(instant_ns: int) -> float:
        return round(_LABEL + (instant_ns - since_ns) * scale, 2)

    lanes = dict.fromkeys(sorted({told.instance for told in history.told}))
    lanes.update(dict.fromkeys(body.instance for body in found))
    parts, tops, top = [], {}, 18
    for name in lanes:
        height, bars = _lane(name, [body for body in found if body.instance == name], top, at)
        tops[name] = (top, height)
        parts.append(bars)
        top += height
    parts += _bands(history.faults, tops, top, at)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {top + 6}" role="img" aria-label="timeline of {html.escape(history.scenario)}">'
        f"{_grid(since_ns, until_ns, top, at)}{''.join(parts)}</svg>"
    )


def _lane(name: str, found: Sequence[Body], top: int, at: _At) -> tuple[int, str]:
    """
    Draw the bars of one instance in as few rows as do not hide each other; gives the height too.
    """
    rows: list[float] = []
    bars = []
    for body in found:
        left = at(body.since_ns)
        right = max(at(body.until_ns), left + 1.5)
        row = next((n for n, end in enumerate(rows) if end <= left), len(rows))
        rows[row : row + 1] = [right + 1]
        if row >= _BARS_SHOWN_MAX:
            continue
        y = top + _PAD + row * (_BAR + _GAP)
        order = "first" if body.attempt == 1 else "later"
        length_ms = (body.until_ns - body.since_ns) // 1_000_000
        words = f"{body}: {body.outcome} after {length_ms} ms"
        bars.append(
            f'<rect class="bar {body.outcome} {order}" x="{left}" y="{y}" width="{right - left:.2f}"'
            f' height="{_BAR}" rx="1.5"><title>{html.escape(words)}</title></rect>'
        )
    shown = max(1, min(len(rows), _BARS_SHOWN_MAX))
    height = 2 * _PAD + shown * (_BAR + _GAP)
    more = f" ({len(rows)} at once)" if len(rows) > _BARS_SHOWN_MAX else ""
    label = f'<text x="6" y="{top + _PAD + 8}">{html.escape(name + more)}</text>'
    line = f'<line class="lane" x1="0" x2="{_WIDTH}" y1="{top + height}" y2="{top + height}"/>'
    return height, label + line + "".join(bars)


def _bands(
    faults: Sequence[Fault], tops: dict[str, tuple[int, int]], bottom: int, at: _At
) -> Iterator[str]:
    for fault in faults:
        top, height = tops.get(fault.target, (18, bottom - 18))
        left = at(fault.since_ns)
        width = max(at(fault.until_ns) - left, 2.0)
        words = f"{fault.kind} on {fault.target}, seen to bite {fault.bites} times"
        yield (
            f'<rect class="band" x="{left}" y="{top}" width="{width:.2f}" height="{height}">'
            f"<title>{html.escape(words)}</title></rect>"
            f'<line class="edge" x1="{left}" x2="{left}" y1="{top}" y2="{top + height}"/>'
        )


def _grid(since_ns: int, until_ns: int, bottom: int, at: _At) -> str:
    seconds = (until_ns - since_ns) // 1_000_000_000
    step = 1 if seconds <= 25 else 5 if seconds <= 120 else 60
    marks = []
    for second in range(0, seconds + 1, step):
        x = at(since_ns + second * 1_000_000_000)
        marks.append(
            f'<line class="tick" x1="{x}" x2="{x}" y1="14" y2="{bottom}"/><text x="{x}" y="11">{second} s</text>'
        )
    return "".join(marks)
