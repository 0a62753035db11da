"""A-GEM: the gradient of the stream without what goes against that of the memory."""

from reference.predictor import inner


def projection(g, g_ref, always=False):
    """g - (g . g_ref / g_ref . g_ref) g_ref if g . g_ref < 0, else g; both are flat lists."""
    across = inner(g, g_ref)
    if across < 0 or always:
        factor = across / inner(g_ref, g_ref)
        return [g[i] - factor * g_ref[i] for i in range(len(g))]
    return list(g)
