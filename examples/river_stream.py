# A river classifier next to river's own: test each sample, then learn it.
#
#     pip install 'evenhand[river]'
#     python examples/river_stream.py
#
# Two data sets that come with river, each in its own order and sorted by class. Sorted, a stream shows what a memory is
# for: whoever only follows it predicts the class of the day and forgets all others, which the test at the end sees.

from importlib.util import find_spec

from river import datasets, evaluate, forest, metrics, preprocessing
from torch import nn

from evenhand.adapters.river import EvenhandClassifier

WIDTH = {"ImageSegments": 18, "Phishing": 9}  # features


def models(name):
    """New models by name; plain SGD and deep-river want features of about 1, which a tree does not care about."""
    scaled = preprocessing.StandardScaler
    yield "adaptive random forest", forest.ARFClassifier(seed=0)
    if find_spec("deep_river"):  # as of 0.3.4 it asks for a torch below 2.6, so it is no part of our extra
        from deep_river.classification import Classifier

        network = nn.Sequential(nn.Linear(WIDTH[name], 64), nn.ReLU(), nn.Linear(64, 2))
        options = {"loss_fn": "cross_entropy", "optimizer_fn": "sgd", "lr": 0.1, "is_class_incremental": True}
        yield "deep-river, the same network", scaled() | Classifier(network, **options, seed=0)
    yield "evenhand", scaled() | EvenhandClassifier(memory=200)


for source in (datasets.ImageSegments(), datasets.Phishing()):
    samples = list(source)
    streams = {"as it comes": samples, "by class": sorted(samples, key=lambda sample: str(sample[1]))}
    for order, stream in streams.items():
        for name, model in models(type(source).__name__):
            online = evaluate.progressive_val_score(stream, model, metrics.Accuracy())

            # The mean of the classes' accuracies on what has been learned: who has forgotten a class gets 0 for it.
            final = metrics.BalancedAccuracy()
            for x, y in samples[::5]:
                final.update(y, model.predict_one(x))
            shown = f"{100 * online.get():.1f} % while learning, {100 * final.get():.1f} % at the end"
            print(f"{type(source).__name__} {order}, {name}: {shown}")
