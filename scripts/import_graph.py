"""Draw the import graph of the package as an SVG: a box per sub-package or top-level module, an arrow per import.

    python scripts/import_graph.py [src/evenhand] [docs/figures/imports.svg]

Importers stand above what they import. Blue arrows show the shortest description of the graph; a thin grey line is an
import that those arrows imply. Imports for type checking only are left out. Needs nothing but Python.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
Edges = set[tuple[str, str]]
Node = str | tuple[str, str, int]  # a unit, or a bend of an arrow in a row
ROW, BOX, GAP = 72, 28, 22  # pixels: distance of rows, height of a box, space between boxes
NARROWEST = 520  # pixels of the page: room for the note
STYLE = """
text { font: 13px system-ui, sans-serif; text-anchor: middle; fill: #1c2127 }
.note { text-anchor: start; fill: #636b75 }
rect.package { fill: #e3f0fa; stroke: #0072b2 }
rect.module { fill: #fff; stroke: #9aa3ad }
path { fill: none }
.direct { stroke: #0072b2; stroke-width: 1.4; marker-end: url(#tip) }
.implied { stroke: #d3d8de; stroke-width: 0.9 }
"""


def imported(tree: ast.AST) -> Iterator[str]:
    """Every absolute module or attribute path that a file imports at run time."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        yield from imported(node)


def graph(package: Path) -> tuple[dict[str, bool], Edges]:
    """Return the units of a package (True for a sub-package) and who imports whom; `__init__` itself is left out."""
    units = {path.name: True for path in package.iterdir() if (path / "__init__.py").exists()}
    units |= {path.stem: False for path in package.glob("*.py") if path.stem != "__init__"}
    edges = set()
    for path in package.rglob("*.py"):
        source = path.relative_to(package).parts[0].removesuffix(".py")
        for name in imported(ast.parse(path.read_text())):
            parts = name.split(".")
            if parts[0] == package.name and len(parts) > 1 and parts[1] in units and source in units:
                edges.add((source, parts[1]))
    return units, {(a, b) for a, b in edges if a != b}


def reachable(start: str, edges: Edges) -> set[str]:
    """All units that can be reached from one by at least one arrow."""
    found: set[str] = set()
    front = {start}
    while front:
        front = {b for a, b in edges if a in front} - found
        found |= front
    return found


def ranks(units: dict[str, bool], edges: Edges) -> dict[str, int]:
    """The row of each unit: below all that import it; one that nobody imports stands just above what it imports."""
    forward = {(a, b) for a, b in edges if a not in reachable(b, edges)}
    rank = dict.fromkeys(units, 0)
    for _ in units:
        for a, b in forward:
            rank[b] = max(rank[b], rank[a] + 1)
    for top in set(units) - {b for _, b in edges}:
        rank[top] = min((rank[b] for a, b in forward if a == top), default=1) - 1
    return rank


def width(name: Node) -> float:
    """The width of a box; a bend of a long arrow, named by a tuple, takes little."""
    return 6 if isinstance(name, tuple) else 22 + 7.2 * len(name)


def place(units: dict[str, bool], direct: Edges) -> tuple[dict[Node, tuple[float, float]], list[list[Node]]]:
    """Put units into rows, route long arrows through bends, and order each row by the mean place of its neighbours."""
    rank = ranks(units, direct)
    rows: list[list[Node]] = [
        [unit for unit in sorted(units) if rank[unit] == r] for r in range(max(rank.values()) + 1)
    ]
    chains: list[list[Node]] = []
    for a, b in sorted(direct):
        low, high = sorted((rank[a], rank[b]))
        bends = [(a, b, r) for r in range(low + 1, high)]
        for bend in bends:
            rows[bend[2]].append(bend)
        chains.append([a, *(bends if rank[a] < rank[b] else bends[::-1]), b])
    neighbours: defaultdict[Node, list[Node]] = defaultdict(list)
    for chain in chains:
        for one, other in pairwise(chain):
            neighbours[one].append(other)
            neighbours[other].append(one)
    x: dict[Node, float] = {}
    for row in rows:
        spread(row, x, {})
    for _ in range(40):
        for row in [*rows, *reversed(rows)]:
            wish = {n: sum(x[m] for m in neighbours[n]) / len(neighbours[n]) if neighbours[n] else x[n] for n in row}
            row.sort(key=lambda n: wish[n])
            spread(row, x, wish)
    left, right = min(x[name] - width(name) / 2 for name in x), max(x[name] + width(name) / 2 for name in x)
    margin = max(10, (NARROWEST - (right - left)) / 2)
    return {name: (x[name] - left + margin, 34 + ROW * r) for r, row in enumerate(rows) for name in row}, chains


def spread(row: list[Node], x: dict[Node, float], wish: dict[Node, float]) -> None:
    """Set the places of a row: as wished, moved apart to the right until nothing overlaps, then back to the middle."""
    left = float("-inf")
    for name in row:
        x[name] = max(wish.get(name, 0), left + width(name) / 2)
        left = x[name] + width(name) / 2 + GAP
    shift = sum(x[name] - wish.get(name, 0) for name in row) / len(row)
    for name in row:
        x[name] -= shift


def curve(points: list[tuple[float, float]]) -> str:
    """A smooth path from below the first box to above the last, through all bends."""
    down = points[-1][1] >= points[0][1]
    half = BOX / 2 if down else -BOX / 2
    points = [(points[0][0], points[0][1] + half), *points[1:-1], (points[-1][0], points[-1][1] - half)]
    path = f"M{points[0][0]:.0f},{points[0][1]:.0f}"
    for (x, y), (u, v) in pairwise(points):
        path += f" C{x:.0f},{(y + v) / 2:.0f} {u:.0f},{(y + v) / 2:.0f} {u:.0f},{v:.0f}"
    return path


def svg(package: Path) -> str:
    """The picture."""
    units, edges = graph(package)
    direct = {(a, b) for a, b in edges if b not in reachable(a, edges - {(a, b)})}
    positions, chains = place(units, direct)
    implied = [f'<path class="implied" d="{curve([positions[a], positions[b]])}"/>' for a, b in sorted(edges - direct)]
    arrows = [f'<path class="direct" d="{curve([positions[name] for name in chain])}"/>' for chain in chains]
    boxes = []
    for name, is_package in units.items():
        (x, y), w, kind = positions[name], width(name) - 6, "package" if is_package else "module"
        corner = f'x="{x - w / 2:.0f}" y="{y - BOX / 2:.0f}"'
        boxes.append(f'<rect class="{kind}" {corner} width="{w:.0f}" height="{BOX}" rx="5"/>')
        boxes.append(f'<text x="{x:.0f}" y="{y + 4.5:.0f}">{escape(name)}</text>')
    height = max(y for _, y in positions.values()) + 64
    across = max(NARROWEST, max(x + width(name) / 2 for name, (x, _) in positions.items()) + 10)
    note = f"{sum(units.values())} packages (blue), {len(units) - sum(units.values())} modules, {len(edges)} imports"
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{across:.0f}" height="{height:.0f}">'
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    defs = f'<style>{STYLE}</style><defs>{tip}<path d="M0,0 L8,4 L0,8 z" style="fill:#0072b2"/></marker></defs>'
    foot = f'<text class="note" x="12" y="{height - 12:.0f}">{note}; grey: implied by the arrows</text>'
    return "\n".join([head, defs, ground, *implied, *arrows, *boxes, foot, "</svg>", ""])


if __name__ == "__main__":
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "src/evenhand"
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "docs/figures/imports.svg"
    target.write_text(svg(source))
