#!/usr/bin/env python3
"""An SVG chart of records that `megamoe bench --out` wrote: a panel for each shape, time and share of the ceiling over tokens.

The ceiling of a row is the longer of two times: its weight bytes at the read rate, and its operations at the multiply
rate, both measured in the same run. Peers' times come from bench/peers/gpu_peers.json, for the panels that it has.
"""

import argparse
import html
import json
import math
import sys
from collections import namedtuple
from pathlib import Path

PEERS = Path(__file__).resolve().parent / "peers" / "gpu_peers.json"
PEER_SERIES = {"best_fused_us": "best fused peer", "chain_us": "unfused chain of peers"}

COLORS = ("#1f5fbf", "#7a3fb0", "#0f8a8a")  # MegaMoE's series
PEER_COLORS = {"best fused peer": "#d9730d", "unfused chain of peers": "#6b8e23"}
CEILING_COLOR = "#888888"
INK = "#222222"
GRID = "#e2e2e2"

COLUMNS = 2
PANEL_WIDTH = 480
TIME_HEIGHT = 210
SHARE_HEIGHT = 90
GAP = 14  # between the two plots of a panel
MARGIN = namedtuple("Margin", "left right top bottom")(62, 16, 34, 44)
PANEL_HEIGHT = MARGIN.top + TIME_HEIGHT + GAP + SHARE_HEIGHT + MARGIN.bottom

Key = namedtuple("Key", "shape format one_rank_of ranks")
Point = namedtuple("Point", "tokens us share")  # share of the ceiling, None for peers


class BadInput(Exception):
    """A file that cannot be drawn: rule, value, remedy."""


def read_json(path):
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} must be a readable JSON file (got {error}); name a record of megamoe bench --out") from error


def read_record(path):
    record = read_json(path)
    if not isinstance(record, dict) or record.get("kind") != "megamoe bench":
        raise BadInput(f"{path} must be a record of megamoe bench (got another file); write one with --out")
    if not record.get("rows"):
        raise BadInput(f"{path} must have rows (got none); was the run cut off?")
    return record


def share_of_ceiling(row):
    return max(row["fraction_of_read"], row["fraction_of_compute"] or 0)


def own_panels(records):
    """{key: {series: [points by tokens]}} of rows with at least one token; those without have no place on the axis."""
    panels = {}
    for record in records:
        for row in record["rows"]:
            if row["tokens"] == 0:
                continue
            key = Key(row["shape"], row["format"], row["one_rank_of"], row["ranks"])
            series = f"MegaMoE, {row['backend']}"
            point = Point(row["tokens"], row["median_us"], share_of_ceiling(row))
            panels.setdefault(key, {}).setdefault(series, []).append(point)
    for panel in panels.values():
        for points in panel.values():
            points.sort()
    return panels


def peer_points(peers, key):
    """{series: [points]} of the peers that were measured at this panel's shape."""
    found = {}
    for row in peers["rows"]:
        if Key(row["shape"], row["format"], row["one_rank_of"], row["ranks"]) != key:
            continue
        for field, series in PEER_SERIES.items():
            if row[field] is not None:
                found.setdefault(series, []).append(Point(row["tokens"], row[field], None))
    return {series: sorted(points) for series, points in found.items()}


def ceiling_points(panel):
    """The time that each number of tokens would take at the ceiling, from the first series that has it."""
    times = {}
    for points in panel.values():
        for point in points:
            times.setdefault(point.tokens, point.us * point.share)
    return sorted(times.items())


# ---------------------------------------------------------------- drawing


def text(x, y, words, anchor="middle", size=12, color=INK, weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{color}" '
            f'font-weight="{weight}">{html.escape(words)}</text>')


def line(x1, y1, x2, y2, color, width=1.0):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" stroke-width="{width}"/>'


def path(places, color, dashes=""):
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"{dashed}/>'


def marker(x, y, color, label, is_peer):
    title = f"<title>{html.escape(label)}</title>"
    if is_peer:
        return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{color}">{title}</rect>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{color}">{title}</circle>'


def us_text(us):
    return f"{us / 1000:g} ms" if us >= 1000 else f"{us:g} us"


def time_ticks(low, high):
    """1, 2, 5 times powers of ten between two times."""
    steps = (m * 10.0**e for e in range(-1, 8) for m in (1, 2, 5))
    return [step for step in steps if low <= step <= high]


class Panel:
    """One shape: tokens to the right on a logarithmic axis, times above, shares below."""

    def __init__(self, key, own, peers, left, top, colors):
        self.key, self.own, self.peers, self.colors = key, own, peers, colors
        self.left, self.right = left + MARGIN.left, left + PANEL_WIDTH - MARGIN.right
        self.top = top + MARGIN.top
        self.share_top = self.top + TIME_HEIGHT + GAP
        self.tokens = sorted({p.tokens for points in (*own.values(), *peers.values()) for p in points})
        times = [p.us for points in (*own.values(), *peers.values()) for p in points]
        times += [us for _, us in ceiling_points(own)]
        self.low, self.high = min(times) / 1.25, max(times) * 1.25

    def x(self, tokens):
        first, last = math.log2(self.tokens[0]), math.log2(self.tokens[-1])
        share = (math.log2(tokens) - first) / (last - first) if last > first else 0.5
        return self.left + 10 + share * (self.right - self.left - 20)

    def y_time(self, us):
        share = math.log(us / self.low) / math.log(self.high / self.low)
        return self.top + TIME_HEIGHT * (1 - share)

    def y_share(self, share):
        return self.share_top + SHARE_HEIGHT * (1 - min(share, 1.0))

    def svg(self):
        return [*self.axes(), *self.ceiling(), *self.series(self.peers, is_peer=True), *self.series(self.own, is_peer=False)]

    def axes(self):
        part = f", one rank of {self.key.one_rank_of}" if self.key.one_rank_of else f", {self.key.ranks} ranks"
        parts = [text(self.left, self.top - 12, f"{self.key.shape}{part}, {self.key.format}", "start", 14, weight="bold")]
        for us in time_ticks(self.low, self.high):
            parts.append(line(self.left, self.y_time(us), self.right, self.y_time(us), GRID))
            parts.append(text(self.left - 6, self.y_time(us) + 4, us_text(us), "end", 11))
        for share in (0, 0.25, 0.5, 0.75, 1):
            parts.append(line(self.left, self.y_share(share), self.right, self.y_share(share), GRID))
        for share in (0, 0.5, 1):
            parts.append(text(self.left - 6, self.y_share(share) + 4, f"{100 * share:.0f} %", "end", 11))
        bottom = self.share_top + SHARE_HEIGHT
        last_x = -math.inf
        for tokens in self.tokens:
            parts.append(line(self.x(tokens), bottom, self.x(tokens), bottom + 4, INK))
            if self.x(tokens) - last_x >= 4 + 6 * len(str(tokens)):  # else it would touch the one before
                last_x = self.x(tokens)
                parts.append(text(last_x, bottom + 17, str(tokens), size=10))
        parts.append(text((self.left + self.right) / 2, bottom + 34, "tokens per rank; above time, below share of the ceiling",
                          size=11))
        return parts

    def ceiling(self):
        places = [(self.x(tokens), self.y_time(us)) for tokens, us in ceiling_points(self.own)]
        return [path(places, CEILING_COLOR, "5 4")]

    def series(self, all_points, is_peer):
        parts = []
        for name, points in all_points.items():
            color = self.colors[name]
            if not is_peer:  # peers' points are too far apart for a line between them to mean anything
                parts.append(path([(self.x(p.tokens), self.y_time(p.us)) for p in points], color))
                parts.append(path([(self.x(p.tokens), self.y_share(p.share)) for p in points], color))
            for p in points:
                label = f"{name}: {p.tokens} tokens, {p.us:.1f} us"
                parts.append(marker(self.x(p.tokens), self.y_time(p.us), color, label, is_peer))
                if not is_peer:
                    share = f"{name}: {p.tokens} tokens, {100 * p.share:.1f} %"
                    parts.append(marker(self.x(p.tokens), self.y_share(p.share), color, share, is_peer))
        return parts


def machine_text(record):
    machine = record["machine"]
    gpu = machine["gpu"]
    if "name" in gpu:
        return (f"{gpu['name']}, driver {gpu['driver']}, at most {gpu['max_sm_clock_mhz']} MHz and "
                f"{gpu['power_limit_watts']:.0f} W")
    return ", ".join(machine["gpus"]) or machine["cpu"]


def ceilings_text(record):
    ceilings = record["ceilings"]
    multiply = "no multiply ceiling"
    if ceilings["gflops"] is not None:
        multiply = f"{ceilings['gflops'] / 1000:.1f} TFLOP/s ({ceilings['arithmetic']})"
    return f"ceilings of the run: {ceilings['read_gbytes_per_s']:.0f} GB/s read, {multiply}"


def legend(colors, y):
    parts, x = [], MARGIN.left
    for name, color in [*colors.items(), ("at the ceiling", CEILING_COLOR)]:
        if name in PEER_COLORS:
            parts.append(marker(x + 11, y - 4, color, name, is_peer=True))
        else:
            parts.append(path([(x, y - 4), (x + 22, y - 4)], color, "5 4" if color == CEILING_COLOR else ""))
        parts.append(text(x + 28, y, name, "start"))
        x += 28 + 7.2 * len(name) + 24
    return parts


def draw(records, peers):
    panels = own_panels(records)
    if not panels:
        raise BadInput("a record must have rows with at least one token (got none); measure some")
    beside = {key: peer_points(peers, key) for key in panels}
    names = dict.fromkeys(name for panel in panels.values() for name in panel)
    colors = {name: COLORS[i % len(COLORS)] for i, name in enumerate(names)}
    colors.update({name: PEER_COLORS[name] for name in PEER_SERIES.values() if any(name in b for b in beside.values())})
    head = [text(MARGIN.left, 26, f"MegaMoE {records[0]['version']}: one MoE layer forward", "start", 16, weight="bold")]
    y = 46
    for record in records:
        for words in (f"{record['date'][:10]}, {machine_text(record)}", ceilings_text(record)):
            head.append(text(MARGIN.left, y, words, "start", 11))
            y += 16
    head += legend(colors, y + 8)
    top = y + 18
    columns = min(COLUMNS, len(panels))
    body = []
    for i, (key, own) in enumerate(panels.items()):
        place = (i % columns * PANEL_WIDTH, top + i // columns * PANEL_HEIGHT)
        body += Panel(key, own, beside[key], *place, colors).svg()
    width = max(columns * PANEL_WIDTH, 860)
    height = top + math.ceil(len(panels) / columns) * PANEL_HEIGHT
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
                      f'height="{height}" font-family="Helvetica, Arial, sans-serif">',
                      f'<rect width="{width}" height="{height}" fill="#ffffff"/>', *head, *body, "</svg>\n"])


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench/plot_record.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+", metavar="RECORD.json", help="what megamoe bench --out wrote; several are drawn together")
    parser.add_argument("out", metavar="OUT.svg")
    parser.add_argument("--peers", default=PEERS, metavar="FILE", help="peers' times (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        svg = draw([read_record(name) for name in options.records], read_json(options.peers))
        Path(options.out).write_text(svg, encoding="utf-8")
    except BadInput as error:
        print(f"plot_record: {error}", file=sys.stderr)
        return 2
    except KeyError as error:
        print(f"plot_record: every row of a record must have its keys (got one without {error}); "
              "write it with this version of megamoe bench", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"plot_record: {options.out} must be writable (got {error}); check the folder", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
