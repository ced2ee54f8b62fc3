#!/usr/bin/env python3
"""Draws rank 0 of two timelines of `weft simulate --trace` one above the other, on one scale, as SVG.
usage: tools/overlap_svg.py BEFORE.json AFTER.json [WHAT] >PICTURE.svg     WHAT hides behind compute; default: all-reduce"""
import json
import sys

LEFT, WIDTH, LANE, GAP = 110, 760, 26, 8
COMPUTE, HIDDEN, EXPOSED = '#4c78a8', '#54a24b', '#e45756'


def read(path):
    """The lanes of rank 0, a list of (name, events) in their order, and how long its step is in microseconds."""
    events = [e for e in json.load(open(path))['traceEvents'] if e['pid'] == 0]
    names = {e['tid']: e['args']['name'] for e in events if e['name'] == 'thread_name'}
    runs = [e for e in events if e['ph'] == 'X']
    lanes = [(names[tid], [e for e in runs if e['tid'] == tid]) for tid in sorted(names)]
    return lanes, max(e['ts'] + e['dur'] for e in runs)


def is_collective(event):
    return event.get('cat') == 'collective'


def cut(event, busy):
    """The parts of a collective as (start, end, is hidden), by the times in which the compute stream computes."""
    parts, at, end = [], event['ts'], event['ts'] + event['dur']
    for first, last in busy:
        first, last = max(first, at), min(last, end)
        if first >= last:
            continue
        if first > at:
            parts.append((at, first, False))
        parts.append((first, last, True))
        at = last
    return parts + ([(at, end, False)] if at < end else [])


def join(spans):
    """Neighbours of one colour without a gap become one."""
    joined = []
    for start, end, colour in sorted(spans):
        if joined and joined[-1][2] == colour and start <= joined[-1][1] + 1e-6:
            joined[-1] = (joined[-1][0], end, colour)
        else:
            joined.append((start, end, colour))
    return joined


def union(spans):
    """Spans of one colour without what they have in common twice: what is sent and received at once is waited for once."""
    made = []
    for start, end, colour in sorted(spans):
        if made and start <= made[-1][1]:
            made[-1] = (made[-1][0], max(made[-1][1], end), colour)
        else:
            made.append((start, end, colour))
    return made


def rectangle(start, end, colour, top, scale):
    width = max((end - start) * scale, 0.4)
    return f'<rect x="{LEFT + start * scale:.1f}" y="{top}" width="{width:.1f}" height="{LANE}" fill="{colour}"/>'


def panel(title, lanes, step, top, scale):
    """SVG of one timeline, and where it ends."""
    busy = sorted((e['ts'], e['ts'] + e['dur']) for _, events in lanes for e in events if not is_collective(e))
    shapes, waits = [], []
    y = top + 22
    for name, events in lanes:
        shapes.append(f'<text x="{LEFT - 8}" y="{y + 17}" text-anchor="end">{name.removeprefix("micro_pipeline_")}</text>')
        spans = []
        for event in events:
            if not is_collective(event):
                spans.append((event['ts'], event['ts'] + event['dur'], COMPUTE))
                continue
            for start, end, hidden in cut(event, busy):
                waits += [] if hidden else [(start, end, EXPOSED)]
                spans.append((start, end, HIDDEN if hidden else EXPOSED))
        shapes += [rectangle(*span, y, scale) for span in join(spans)]
        y += LANE + GAP
    exposed = sum(end - start for start, end, _ in union(waits))
    words = f'{title}: a step {step / 1000:.2f} ms, communication exposed {exposed / 1000:.2f} ms'
    return [f'<text x="{LEFT}" y="{top + 12}" font-weight="bold">{words}</text>'] + shapes, y


def legend(y, what):
    items = [(COMPUTE, 'compute'), (HIDDEN, f'{what} behind compute'), (EXPOSED, f'{what} that compute waits for')]
    shapes, x = [], LEFT
    for colour, words in items:
        shapes.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colour}"/>')
        shapes.append(f'<text x="{x + 18}" y="{y + 11}">{words}</text>')
        x += 60 + 7 * len(words)
    return shapes


def main(before, after, what='all-reduce'):
    (lanes, step), (lanes_after, step_after) = read(before), read(after)
    scale = WIDTH / max(step, step_after)
    shapes, y = panel('before', lanes, step, 8, scale)
    more, y = panel('after', lanes_after, step_after, y + 14, scale)
    height = y + 30
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 12} {height}" '
          'font-family="sans-serif" font-size="13">')
    print(f'<rect width="100%" height="{height}" fill="white"/>')
    print('\n'.join(shapes + more + legend(y + 8, what)))
    print('</svg>')


main(*sys.argv[1:])
