"""A bar chart as SVG: one bar per row, in groups, with the cost of Redis after the cost of the gateway."""

from kit.charts import line, text

WIDTH, LEFT, RIGHT = 860, 270, 110
BAR, GAP, HEAD, TOP, BOTTOM = 18, 6, 34, 72, 40
OWN, OTHER, REDIS, NOISE = "#1f5fa8", "#8a97a6", "#d68910", "#222"


def chart(title, under, groups):
    """`groups`: (title, bars), a bar: (label, gateway, redis, lowest, highest, whether it is ours), in microseconds."""
    height = TOP + sum(HEAD + len(bars) * (BAR + GAP) for _, bars in groups) + BOTTOM
    most = max((max(gateway + redis, highest) for _, bars in groups for _, gateway, redis, _, highest, _ in bars), default=1)
    step = next(step for step in (1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000) if most / step <= 10 or step == 1000)

    def across(value):
        return LEFT + (WIDTH - LEFT - RIGHT) * value / most

    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        text(16, 26, title, size=16, weight="bold"),
        text(16, 48, under, size=12, colour="#555"),
    ]
    for number in range(int(most / step) + 1):
        x = across(number * step)
        drawn.append(line(x, TOP, x, height - BOTTOM, "#ddd"))
        drawn.append(text(x, height - BOTTOM + 18, f"{number * step} us", anchor="middle", colour="#555"))
    y = TOP
    for name, bars in groups:
        drawn.append(text(16, y + 22, name, weight="bold"))
        y += HEAD
        for label, gateway, redis, lowest, highest, ours in bars:
            drawn.append(text(LEFT - 8, y + 13, label.replace("`", ""), anchor="end", weight="bold" if ours else "normal"))
            drawn.append(box(LEFT, y, across(gateway) - LEFT, OWN if ours else OTHER))
            drawn.append(box(across(gateway), y, across(gateway + redis) - across(gateway), REDIS))
            drawn.append(line(across(lowest), y + BAR / 2, across(highest), y + BAR / 2, NOISE))
            end = max(across(gateway + redis), across(highest))
            said = f"{gateway:.1f}" + (f" + {redis:.1f}" if redis >= 0.05 else "")
            drawn.append(text(end + 6, y + 13, said, size=12))
            y += BAR + GAP
    return "\n".join([*drawn, "</svg>", ""])


def box(x, y, width, colour):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0, width):.1f}" height="{BAR}" fill="{colour}"/>'
