import pytest


@pytest.fixture(params=["fresh", "trained"])
def victim(request, learner, train):
    """A learner of images that has, or has not, learned before."""
    return learner("uer", augment="crop") if request.param == "fresh" else train("uer", augment="crop", batches=2)
