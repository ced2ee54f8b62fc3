#!/usr/bin/env python3
"""Finds circles: C files that use each other's functions or tables, directly or through others. What a header declares
makes no circle, so a folder's header and its own files are none.
usage: tools/circles.py OBJECT...     prints the uses in each circle; exit 1 where there are any"""
import subprocess
import sys


def symbols_of(objects):
    """For each object the names that it defines for others, and those that it uses."""
    defines, uses = {}, {}
    for line in subprocess.check_output(['nm', '--print-file-name', *objects], text=True).splitlines():
        path, fields = line.split(':', 1)
        kind, name = fields.split()[-2:]
        if kind == 'U':
            uses.setdefault(path, set()).add(name)
        elif kind.isupper():
            defines[name] = path
    return defines, uses


def graph_of(objects):
    """For each object the others that it uses, and by which names."""
    defines, uses = symbols_of(objects)
    graph = {path: {} for path in objects}
    for path, names in uses.items():
        for name in sorted(names):
            if defines.get(name, path) != path:
                graph[path].setdefault(defines[name], []).append(name)
    return graph


def reachable(graph, start):
    seen, todo = set(), [start]
    while todo:
        for other in graph[todo.pop()]:
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


def main(objects):
    graph = graph_of(objects)
    reach = {path: reachable(graph, path) for path in graph}
    circles = {frozenset(b for b in reach[a] if a in reach[b]) for a in graph if a in reach[a]}
    for circle in sorted(circles, key=min):
        print(f'a circle of {len(circle)} files:', file=sys.stderr)
        for path in sorted(circle):
            for other in sorted(circle & graph[path].keys()):
                print(f'  {path} uses {other}: {", ".join(graph[path][other])}', file=sys.stderr)
    if not circles:
        print(f'check-deps: no circles among {len(objects)} files')
    return bool(circles)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
