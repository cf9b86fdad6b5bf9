#!/usr/bin/env python3
"""Draws the rows that `compare.py --json` wrote as an SVG: how many times faster than the best peer's int8 each engine is.

    plot.py rows.json speed.svg
"""
import html
import json
import pathlib
import sys

PEERS_INT8 = ("onnxruntime_int8", "openvino_int8")
COLORS = {"libtorch": "#b0b0b0", "onnxruntime": "#8aa9c9", "openvino": "#c9a98a", "podaq": "#2a7f4f"}
ROW, GAP, LABELS, WIDTH, HEAD = 16, 34, 170, 330, 28
COLUMNS = 2


def panels(rows):
    """The rows of each configuration, in their order."""
    found = {}
    for row in rows:
        found.setdefault((row["net"], row["batch"], row["threads"]), []).append(row)
    return found


def draw_panel(rows, title, left, top):
    best = min((row["median_us"] for row in rows if row["engine"] in PEERS_INT8), default=None)
    if best is None:
        raise SystemExit(f"{title}: the rows have no peer's int8 to compare with")
    longest = max(best / row["p10_us"] for row in rows)
    scale = (WIDTH - 90) / max(longest, 1.0)
    parts = [f'<text x="{left}" y="{top}" font-weight="bold">{html.escape(title)}</text>']
    one = left + LABELS + scale
    parts.append(f'<line x1="{one:.1f}" y1="{top + 6}" x2="{one:.1f}" y2="{top + 8 + ROW * len(rows)}" stroke="#888" '
                 'stroke-dasharray="3 3"/>')
    for index, row in enumerate(rows):
        y = top + 10 + index * ROW
        ratio = best / row["median_us"]
        color = COLORS[row["engine"].split("_")[0]]
        end = left + LABELS + scale * ratio
        slow, fast = (left + LABELS + scale * best / row[name] for name in ("p90_us", "p10_us"))
        parts.append(f'<text x="{left + LABELS - 6}" y="{y + 10}" text-anchor="end">{html.escape(row["engine"])}</text>')
        parts.append(f'<rect x="{left + LABELS}" y="{y}" width="{end - left - LABELS:.1f}" height="{ROW - 4}" '
                     f'fill="{color}"/>')
        parts.append(f'<line x1="{slow:.1f}" y1="{y + 6}" x2="{fast:.1f}" y2="{y + 6}" stroke="#222"/>')
        parts.append(f'<text x="{max(end, fast) + 5:.1f}" y="{y + 10}">{ratio:.2f}x, {time_of(row["median_us"])}</text>')
    return parts


def time_of(microseconds):
    return f"{microseconds / 1000:.1f} ms" if microseconds >= 10000 else f"{microseconds:.0f} us"


def draw(rows):
    parts = []
    top = HEAD + 20
    found = list(panels(rows).items())
    for first in range(0, len(found), COLUMNS):
        line = found[first:first + COLUMNS]
        for column, ((net, batch, threads), members) in enumerate(line):
            title = f"{net}, batch {batch}, {threads} thread{'s' if threads > 1 else ''}"
            parts += draw_panel(members, title, 20 + column * (LABELS + WIDTH + 20), top)
        top += GAP + ROW * max(len(members) for _, members in line)
    width = 20 + COLUMNS * (LABELS + WIDTH + 20)
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{top}" fill="white"/>',
        f'<text x="20" y="{HEAD - 8}" font-size="14">Speed relative to the best peer\'s int8 (dashed); medians, '
        'whiskers from the 10th to the 90th percentile</text>',
        *parts, "</svg>", ""])


def main():
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        raise SystemExit(__doc__.strip())
    rows = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    pathlib.Path(sys.argv[2]).write_text(draw(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
