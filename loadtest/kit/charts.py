"""Line charts as SVG, on a logarithmic scale: their values span three decades."""

from math import ceil, floor, log10
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 360
LEFT, RIGHT, TOP, BOTTOM = 84, 210, 48, 44


def chart(title, unit, lines, marks=(), levels=(), along="s"):
    """`lines`: (label, colour, points); `marks`: (second, label); `levels`: (value, label). Points are (second, value).

    `along` is the unit of the horizontal axis, if that has no seconds.
    """
    seconds = max((x for _, _, points in lines for x, _ in points), default=1)
    values = [y for _, _, points in lines for _, y in points if y > 0] + [value for value, _ in levels]
    low = 10 ** floor(log10(min(values, default=1)))
    high = 10 ** max(ceil(log10(max(values, default=10))), round(log10(low)) + 1)

    def across(x):
        return LEFT + (WIDTH - LEFT - RIGHT) * x / max(1, seconds)

    def up(y):
        part = (log10(max(y, low)) - log10(low)) / (log10(high) - log10(low))
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part

    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        text(LEFT, 26, title, size=16, weight="bold"),
    ]
    value = low
    while value <= high:
        y = up(value)
        drawn.append(line(LEFT, y, WIDTH - RIGHT, y, "#ddd"))
        under = "≤ " if value == low and any(y < low for _, _, points in lines for _, y in points) else ""
        drawn.append(text(LEFT - 8, y + 4, f"{under}{value:,g} {unit}", anchor="end", colour="#555"))
        value *= 10
    step = next(step for step in (5, 10, 20, 30, 60, 120, 600, 3600) if seconds / step <= 9 or step == 3600)
    for x in range(0, int(seconds) + 1, step):
        drawn.append(text(across(x), HEIGHT - BOTTOM + 20, f"{x} {along}", anchor="middle", colour="#555"))
    for x, label in marks:
        drawn.append(line(across(x), TOP, across(x), HEIGHT - BOTTOM, "#999", dash=True))
        drawn.append(text(across(x) + 4, HEIGHT - BOTTOM - 8, label, colour="#555"))
    ends = []
    for y, label in levels:
        drawn.append(line(LEFT, up(y), WIDTH - RIGHT, up(y), "#999", dash=True))
        ends.append([up(y) + 4, label, "#555"])
    for label, colour, points in lines:
        if points:
            path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in points)
            drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
            ends.append([up(points[-1][1]) + 4, label, colour])
    # Each line is named at its end; names that would meet are moved apart.
    ends.sort()
    for above, below in zip(ends, ends[1:]):
        below[0] = max(below[0], above[0] + 17)
    drawn += [text(WIDTH - RIGHT + 8, y, label, colour=colour) for y, label, colour in ends]
    return "\n".join([*drawn, "</svg>", ""])


def text(x, y, words, size=13, anchor="start", colour="#222", weight="normal"):
    style = f'font-size="{size}" text-anchor="{anchor}" fill="{colour}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'


def line(x1, y1, x2, y2, colour, dash=False):
    dashes = ' stroke-dasharray="4 4"' if dash else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{dashes}/>'
