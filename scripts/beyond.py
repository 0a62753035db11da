"""Generate docs/beyond.md, the page about averaged weights and streams that do not wait, from the committed records.

    python scripts/beyond.py

The same records give the same bytes.
"""

from collections.abc import Sequence
from pathlib import Path

from standings import BASELINE, CONTENDER, PERCENT

from evenhand import errors, files, metrics
from evenhand.core import registry
from evenhand.core.method import Weights
from evenhand.experiment.estimate import Estimate, Group, Metric, difference, in_percent
from evenhand.experiment.records.inventory import inventory
from evenhand.experiment.result import Result, by_setting, grouped
from evenhand.experiment.spec import Spec
from evenhand.methods.ema import Averaged
from evenhand.methods.er import Latest
from evenhand.paper import Rendering, drawing, load_item, select
from evenhand.paper.curves import ACCURACY, SCALE, Curve, Panel
from evenhand.paper.published import method_title, stream_title
from evenhand.paper.tables import TextTable

PROJECT = Path(__file__).parents[1]
PAGE = PROJECT / "docs/beyond.md"
RESULTS = PROJECT / "results"
FOLDERS = ("paper", "protocol", "embedded", "search")
SEED, DRAWN = 1, ("pcr", CONTENDER)  # of the search with averages by row
DECAYS = (0.99, 0.995, 0.998)
ALPHAS = {"0.25": "uer(alpha=0.25)", "0.5": CONTENDER, "0.75": "uer(alpha=0.75)"}
ASKED: dict[str, Weights] = {
    "latest weights": Latest(),
    "average 0.99": Averaged(0.99),
    "average 0.995 by row": Averaged(0.995, by_row=True),
    "average 0.998 by row": Averaged(0.998, by_row=True),
}
AVERAGED = "ema"
HEADER = """# Beyond the paper

What averaged weights gain at no extra cost of training, and how slower methods do on a stream that does not wait.
Nothing here comes from the UER paper. `python scripts/beyond.py` generates this page from the records in `results`;
only the text around the tables is written by hand.

## Averaged weights

    evenhand runs results/paper --where "tests=*ema*"

These trainings ([their commands](../results/README.md#paper-the-papers-setting)) are tested twice: with the latest
weights, and with their [moving average](protocol.md#one-training-many-tests). The tables show the final average
accuracy in % (previous / current classes) on test data, in the paper's protocol; ± is half the 95 % interval over
seeds. `pcr` with averaged weights is `even`. We chose the decay and everything else on held-out training samples,
before we saw these numbers.
"""
FOUND = """With averaged weights, UER ends above the paper's own number in every cell that was run; with the latest
weights it ends within 3.9 points of it, mostly below. `even` ends 5.9, 8.9 and 6.4 points above the paper's UER. On
CIFAR-100 with a memory of 1000, averaging raises the previous classes of both by seven points and lowers the current
ones by thirteen.

**What averaging gives ER alone, and what remains of UER's lead:** on CIFAR-100 with a memory of 1000, ER gains 5.5
points, LUCIR 6.0 and ER-ACE 4.7 over four seeds, UER 5.2 over five; SCR, tested by nearest class means, gains 1.0 (one
seed). There, and on MiniImageNet with memories of 500 to 2000, averaging helps ER and UER alike, and UER's lead stays
between five and eight points. It grows on MiniImageNet with 5000, from 3.9 to 6.4, and on CIFAR-10, from 5.8 to 11.4
with a memory of 100 and from 5.2 to 6.9 with 500 (one seed each). ER and LUCIR still reach 64 and 63 % on the current
classes: averaging reaches further back, but does not remove the preference for the newest classes. Testing ER's latest
weights by nearest class means (seed 0) gains more than averaging, 22.9 (22.0 / 30.7), but still ends 6.2 points below
averaged UER with that seed. On the embedded images [below](#all-methods-and-a-stream-that-does-not-wait), where three
seeds settle nothing, ER gains 3.6 points and UER's lead shrinks from 7.2 to 5.2.
"""
CHOICE = """### How we chose the average

![Accuracy by the number of steps averaged](beyond/decay.svg)

We tested these trainings on a held-out tenth of the training samples ([all
results](../results/README.md#search-which-parts-go-together-on-held-out-training-samples)); the figure shows seed 1.
The slower the average, the better it knows the previous classes and the worse the current ones, down to nothing on
CIFAR-100, because the head's rows for new classes lag behind. If each row is averaged by its own age, they keep up, and
one decay, 0.998, serves both datasets and both methods.
"""
ALPHA = """### Alpha and the average

The same for UER with other weights of the dot product in replay, seed 1, held-out samples:
"""
CHOSEN = """With averaged weights, a larger alpha lowers the current classes, most of all with the slowest average:
replay by dot products raises the norms of old classes, and an average keeps the norms of new ones behind. So a smaller
alpha gains more from averaging: with 0.25, 0.5 and 0.75 the default average gains 5.5, 5.1 and 4.0 points on CIFAR-100,
and 5.6, 4.7 and 4.1 on CIFAR-10. One seed cannot say which alpha is best: 0.5 is ahead in every column on CIFAR-100 and
behind in every column on CIFAR-10. We left it at the paper's 0.5.
"""
ALL = """## All methods, and a stream that does not wait

    evenhand grid benchmarks/grids/embedded.toml --threads 1

The embedded images with a memory of 200 and the small CNN, best first. *Real time* is `--pace realtime`: a method that
costs C_D times as much as ER [misses batches](protocol.md#a-stream-that-does-not-wait) while it computes. A method that
costs no more than ER misses nothing and has no entry there.
"""
SHOWN = """Three seeds of so short a stream settle little: every interval of a gain by averaging includes zero, though
most methods gain one to four points. PCR leads with the latest weights and `counted` with averaged ones, by less than
the intervals. The nearest class mean helps methods that forget (ER gains 4.6, DER++ 9.9, A-GEM goes from 19.2 to 66.2)
and hurts those that are balanced already (UER loses 2.0, PCR 3.0), as the literature reports; averaging adds nothing to
it. When the stream does not wait, most methods that cost more than twice as much as ER fall: MIR from 70.6 to 54.7,
ER-DVC from 59.9 to 38.0, GSS from 61.1 to 50.4, GMED from 70.9 to 63.3. ER and UER miss nothing and keep 65.2 and 72.4.
(ASER loses one point; its documented cost omits most of the work in its steps.)
"""
LATE = """    evenhand run mir --pace realtime --data cifar100 --tests ema --threads 1 --root results/paper

With two views of each sample, MIR costs 2.33 times as much as ER, so in real time it learns three of every seven
batches. It ends at 10.0; on a stream that waits it ends at 16.3, about as high as ER (14.8 and 16.7 on two processors).
SCR costs no more than ER with two views and misses nothing (12.4, in the table of averages above). We have not run
ER-DVC, OBC and DER++ in real time on CIFAR-100.
"""
WAYS = ("", "ema", "ncm", "ema+ncm")


class Tests:
    """All runs of a stream and a memory that were tested in several ways, by method and way."""

    def __init__(self, rows: Sequence[Result]) -> None:
        self.groups: dict[tuple[str, str], Group] = {}
        for runs in by_setting(list(rows)):
            method, way = _split(runs[0].spec.method)
            if (method, way) in self.groups:
                raise ValueError(f"{runs[0].key} has other settings than the runs of {method} before it.")
            self.groups[method, way] = Group(method_title(method), tuple(runs))
        self.methods = list(dict.fromkeys(method for method, _ in self.groups))

    def gain(self, method: str) -> Estimate | None:
        """What averaged weights give a method, by seed."""
        return self._minus((method, AVERAGED), (method, ""))

    def lead(self, method: str, over: str, way: str) -> Estimate | None:
        """What a method has beyond another, tested alike, by seed."""
        return self._minus((method, way), (over, way))

    def beyond(self, method: str, number: float | None, way: str) -> Estimate | None:
        """What a method has beyond a published number, on average."""
        group = self.groups.get((method, way))
        own = group.estimate(in_percent(metrics.average)) if group else None
        return Estimate.of([value - number for value in own.values]) if own and number is not None else None

    def accuracy(self, method: str, way: str) -> str:
        """The final average accuracy; empty if there is none."""
        group = self.groups.get((method, way))
        return _shown(group.estimate(in_percent(metrics.average))) if group else ""

    def balance(self, method: str, way: str) -> str:
        """The same, with that of previous and current classes."""
        return _balance(*self.groups[method, way].runs)

    def _minus(self, first: tuple[str, str], second: tuple[str, str]) -> Estimate | None:
        one, two = self.groups.get(first), self.groups.get(second)
        return difference(one, two, in_percent(metrics.average)) if one and two else None


def results_in(root: Path) -> list[Result]:
    """The finished runs in a folder; raises if one is damaged, as the page would lack it without a word."""
    entries = inventory(root, with_results=True)
    for entry in entries:
        if entry.state == "damaged":
            raise errors.RunError(entry.message)
    return [entry.result for entry in entries if entry.result]


def averaged(results: Sequence[Result]) -> list[Result]:
    """The runs that were tested with averaged weights too, a result for each of their tests."""
    return [row for one in results if AVERAGED in registry.ways(one.spec.tests) for row in one.rows()]


def by_stream(rows: Sequence[Result]) -> dict[str, Tests]:
    """The runs of each stream and memory in the paper's protocol, by its title."""
    usual = sorted((row for row in rows if _is_usual(row.spec)), key=lambda row: (row.spec.data, row.spec.memory))
    titles = grouped(usual, lambda row: stream_title(row.spec.data, row.spec.memory))
    return {title: Tests(found) for title, found in titles.items()}


def averages(title: str, tests: Tests, paper: float | None) -> str:
    """Each method with and without averaged weights, UER's distance to the paper's, and what is left of its lead."""
    rows = [
        (
            f"`{method}`",
            *(tests.balance(method, way) for way in ("", AVERAGED)),
            _shown(tests.gain(method), signed=True),
            str(len(tests.groups[method, ""].runs)),
        )
        for method in tests.methods
    ]
    title = f"{title}; the paper's UER: {PERCENT(paper)}"
    table = TextTable(title, ("method", "latest weights", "averaged", "gain, paired", "seeds"), tuple(rows))
    gaps = {
        "UER minus the paper's": [tests.beyond(CONTENDER, paper, way) for way in ("", AVERAGED)],
        "UER minus ER": [tests.lead(CONTENDER, BASELINE, way) for way in ("", AVERAGED)],
    }
    shown = {name: [_shown(gap, signed=True) for gap in pair if gap] for name, pair in gaps.items()}
    said = [
        f"{name}: {both[0]} with the latest weights, {both[1]} with averaged ones."
        for name, both in shown.items()
        if both
    ]
    return "\n".join([table.markdown(), *([" ".join(said) + "\n"] if said else [])])


def paces(title: str, rows: Sequence[Result], ways: Sequence[str] = ("", AVERAGED)) -> str:
    """Methods on a stream that waits for them and on one that does not, tested in several ways."""
    waiting, moving = (Tests([row for row in rows if row.spec.pace == pace]) for pace in ("wait", "realtime"))
    found = {method: tests.groups[method, ""] for tests in (moving, waiting) for method in tests.methods}
    lines = [
        (
            f"`{method}`",
            f"{found[method].spec.cost:.2f}",
            *(waiting.accuracy(method, way) for way in ways),
            _shown(waiting.gain(method), signed=True),
            *(moving.accuracy(method, way) for way in ("", AVERAGED)),
        )
        for method in sorted(found, key=lambda method: -found[method].final.mean)
    ]
    tests = ("latest weights", *(f"`{way}`" for way in ways[1:]), f"gain by `{AVERAGED}`")
    columns = ("method", "C_D", *tests, "real time", f"real time, `{AVERAGED}`")
    return TextTable(title, columns, tuple(lines)).markdown()


def in_real_time(results: Sequence[Result]) -> list[Result]:
    """The runs in real time, a result for each test; and on streams that wait, the same methods with ER and UER."""
    trainings = sorted(results, key=lambda one: AVERAGED in registry.ways(one.spec.tests))  # the last one counts
    rows = {row.spec: row for one in trainings for row in one.rows()}
    moving = [spec for spec in rows if spec.pace == "realtime"]
    streams = {_stream(spec) for spec in moving}
    methods = {BASELINE, CONTENDER, *(_split(spec.method)[0] for spec in moving)}
    return [row for spec, row in rows.items() if _stream(spec) in streams and _split(spec.method)[0] in methods]


def by_weights(run: Result) -> dict[Weights, Result]:
    """The tests of a run that take the logits as its method does, by the weights that they ask."""
    scoring = run.spec.resolved.scoring
    return {row.spec.resolved.weights: row for row in run.rows() if row.spec.resolved.scoring == scoring}


def alphas(search: Sequence[Result]) -> list[str]:
    """UER on held-out samples by alpha and by the weights that are asked, a table for each stream."""
    runs = [run for run in search if run.spec.seed == SEED and run.spec.method in ALPHAS.values()]
    tables = []
    for title, found in grouped(runs, lambda run: stream_title(run.spec.data, run.spec.memory)).items():
        tests = {run.spec.method: by_weights(run) for run in found}
        rows = [
            (alpha, *(_balance(tests[method].get(weights)) for weights in ASKED.values()))
            for alpha, method in ALPHAS.items()
            if method in tests
        ]
        tables.append(TextTable(title, ("alpha", *ASKED), tuple(rows)).markdown())
    return tables


def decays(run: Result) -> Panel:
    """Accuracy on held-out samples by how many steps are averaged, with all rows alike and by row."""
    latest, rows = run.spec.resolved.weights, by_weights(run)

    def curve(name: str, metric: Metric, by_row: bool) -> Curve:
        found = [rows.get(weights) for weights in (latest, *(Averaged(decay, by_row) for decay in DECAYS))]
        return Curve(name, [Estimate.of([in_percent(metric)(row.accuracy)]) if row else None for row in found])

    drawn = [curve(name, metric, by_row=False) for name, metric in SCALE.items()]
    drawn += [curve(f"{name}, by row", metric, by_row=True) for name, metric in SCALE.items()]
    title = f"{stream_title(run.spec.data, run.spec.memory)}, {method_title(run.spec.method)}"
    return Panel(title, "steps averaged", ACCURACY, (1, *(round(1 / (1 - decay)) for decay in DECAYS)), drawn)


def text(
    paper: Sequence[Result], protocol: Sequence[Result], embedded: Sequence[Result], search: Sequence[Result]
) -> str:
    """Compose the page."""
    uer = Rendering(select(load_item("table2"), methods=[CONTENDER]), [])
    published = {stream_title(row.data, row.memory): row.paper for table in uer.compared for row in table.rows}
    tables = [averages(title, tests, published.get(title)) for title, tests in by_stream(averaged(paper)).items()]
    small = paces("Final average accuracy in %, three seeds each", averaged(embedded), WAYS)
    streams = grouped(in_real_time([*protocol, *paper]), lambda row: stream_title(row.spec.data, row.spec.memory))
    large = [paces(f"{title}, one seed", rows) for title, rows in streams.items()]
    return "\n".join(
        [
            HEADER,
            *tables,
            FOUND,
            CHOICE,
            ALPHA,
            *alphas(search),
            CHOSEN,
            ALL,
            small,
            SHOWN,
            *large,
            *([LATE] if large else []),
        ]
    )


def write(page: Path, results: Path) -> None:
    """Write the page, and its picture into a folder with the name of the page."""
    paper, protocol, embedded, search = (results_in(results / name) for name in FOLDERS)
    pictures = page.with_suffix("")
    panels = [decays(run) for run in search if run.spec.seed == SEED and run.spec.method in DRAWN]
    files.make_folder(pictures)
    files.write(pictures / "decay.svg", drawing.panels_picture(panels, "decay", "svg"))
    files.write(page, text(paper, protocol, embedded, search).encode())


def _split(method: str) -> tuple[str, str]:
    """The name of what is trained, and the way in which it is tested."""
    trained, ways = registry.split(method)
    return "+".join(map(registry.spell, trained)), "+".join(map(registry.spell, ways))


def _is_usual(spec: Spec) -> bool:
    """Whether a run has the settings of its dataset: no probe, no neck, and a stream that waits."""
    return spec == Spec.make(**spec.model_dump(include={"data", "memory", "stages", "method", "seed"}))


def _stream(spec: Spec) -> Spec:
    """What runs on the same stream have in common."""
    return spec.model_copy(update={"method": BASELINE, "pace": "wait"})


def _balance(*runs: Result | None) -> str:
    """The final average accuracy, and that of previous and current classes; empty without a run."""
    if not (found := tuple(run for run in runs if run)):
        return ""
    group = Group(found[0].spec.method, found)
    whole, *parts = (group.estimate(in_percent(part)) for part in (metrics.average, metrics.previous, metrics.current))
    return f"{_shown(whole)} ({' / '.join(PERCENT(part.mean) for part in parts if part)})"


def _shown(estimate: Estimate | None, signed: bool = False) -> str:
    return PERCENT(estimate.mean, estimate.half, signed) if estimate else ""


if __name__ == "__main__":
    write(PAGE, RESULTS)
