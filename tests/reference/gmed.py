"""GMED's edit of single samples, on the layers and mixes of `mir`."""

from reference.mir import mixed, virtual


def edit(theta, batch, drawn, *, lr, stride, decay, beta, learn, replay):
    """Move each (x, y, age) to where the step on the batch would hurt more; images, so clamp to [0, 1]."""
    after = virtual(theta, batch, learn, lr)
    edited = []
    for x, y, age in drawn:
        now, then = mixed(theta, x, y, replay)[1]["h"], mixed(after, x, y, replay)[1]["h"]
        reach = stride
        for _ in range(age):
            reach *= 1 - decay
        moved = []
        for k in range(len(x)):
            value = x[k] + reach * (then[k] - now[k] - beta * now[k])
            moved.append(min(1.0, max(0.0, value)))
        edited.append(moved)
    return edited
