"""Gradients other than those of the step itself: virtual steps, and gradients of single samples."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.utils import get_total_norm

from evenhand import errors
from evenhand.core.batch import Batch, unit
from evenhand.core.network import Network
from evenhand.core.scoring import Mix

if TYPE_CHECKING:
    from evenhand.core.learner import Learner


def trainable(module: nn.Module) -> list[nn.Parameter]:
    """The parameters that are not frozen."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def total_norm(gradients: Iterable[Tensor | None]) -> Tensor:
    """The norm of all gradients together."""
    return get_total_norm([g.coalesce().values() if g.is_sparse else g for g in gradients if g is not None])


def virtual_step(learner: "Learner", batch: Batch) -> None:
    """Take an SGD step on the stream's batch alone, by the method's own objective on the views that will be learned.

    Call it within `learner.scratch_copy()`, so that only the weights and running statistics of a copy change. The
    learning rates and the maximum norm are those of the step that will be taken.
    """
    rated = zip(learner.network.parameters(), learner.rates, strict=True)
    moving = [(parameter, rate) for parameter, rate in rated if parameter.requires_grad]
    if any(rate is None for _, rate in moving):
        name = type(learner.optimizer).__name__
        raise errors.InputError(f"This method takes virtual steps, for which {name} has no learning rate.")
    loss = learner.method.objective(learner, batch, None).learning
    if loss is not None:
        gradients = torch.autograd.grad(loss, [parameter for parameter, _ in moving], allow_unused=True)
        scale = learner.optimization.scale(total_norm(gradients))
        with torch.no_grad():
            for (parameter, rate), gradient in zip(moving, gradients, strict=True):
                if gradient is not None:
                    parameter.sub_(gradient if scale is None else gradient * scale, alpha=rate or 0.0)


def sample_gradients(learner: "Learner", batch: Batch, mix: Mix) -> Tensor:
    """The gradient of each sample's cross-entropy with respect to all parameters, in eval mode, (n, parameters)."""
    network, couple = learner.eval_copy(), learner.method.scoring.couple

    def loss(values: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        logits = functional_call(network, values, (x.unsqueeze(0), [form for form, _ in mix], couple))
        return _mixed(logits, y.unsqueeze(0), mix)

    values = {name: parameter.detach() for name, parameter in _parameters(network).items()}
    try:
        gradients = vmap(grad(loss), in_dims=(None, 0, 0))(values, unit(batch.x), batch.y)
    except RuntimeError:  # e.g. a GRU, or a branch that depends on values
        return torch.stack([batch_gradient(learner, batch[[row]], mix) for row in range(len(batch))])
    return torch.cat([gradient.flatten(1) for gradient in gradients.values()], dim=1)


def batch_gradient(learner: "Learner", batch: Batch, mix: Mix) -> Tensor:
    """The gradient of a batch's mean cross-entropy with respect to all parameters, in eval mode, (parameters,)."""
    network, couple = learner.eval_copy(), learner.method.scoring.couple
    loss = _mixed(network(unit(batch.x), [form for form, _ in mix], couple), batch.y, mix)
    gradients = torch.autograd.grad(loss, list(_parameters(network).values()), materialize_grads=True)
    return torch.cat([gradient.to_dense().flatten() for gradient in gradients])


def _mixed(logits: list[Tensor], y: Tensor, mix: Mix) -> Tensor:
    of = {form: z for z, (form, _) in zip(logits, mix, strict=True)}
    return mix.expect(lambda form: F.cross_entropy(of[form], y))


def _parameters(network: Network) -> dict[str, nn.Parameter]:
    """The trainable parameters of the classifier: all except those of extra modules and frozen layers."""
    return {name: p for name, p in network.named_parameters() if p.requires_grad and not name.startswith("extra.")}
