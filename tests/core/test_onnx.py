"""The module of a learner through ONNX, run by onnxruntime."""

import numpy as np
import pytest
import torch

from core.test_exported import bytes_, trained

pytestmark = pytest.mark.slow


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("method", ["uer", "lucir"])
def test_it_goes_through_onnx(method, tmp_path):
    import onnxruntime as runtime

    learner = trained(method)
    path = tmp_path / "module.onnx"
    shapes = {"inputs": ({0: torch.export.Dim("samples")},)}
    torch.onnx.export(learner.module(), (bytes_(2),), path, dynamo=True, dynamic_shapes=shapes, verbose=False)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    [logits] = session.run(None, {session.get_inputs()[0].name: bytes_().numpy()})
    assert np.allclose(logits, learner.scores(bytes_()), atol=1e-4)
