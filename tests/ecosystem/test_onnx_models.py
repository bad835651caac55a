"""Public architectures through ONNX: onnxruntime and what is imported again agree with the model.

make test-clients         makes the environment, and runs these tests in it
"""

import os
from pathlib import Path

import pytest

if not os.environ.get("RUSHLIGHT_CLIENTS"):
    pytest.skip("needs an environment of its own: make test-clients", allow_module_level=True)

from test_clients import PROGRAMS, needs, run

TIMM = """beit_base_patch16_224 cait_xxs24_224 coat_lite_tiny convnext_atto crossvit_tiny_240 dla34
edgenext_xx_small efficientformerv2_s0 efficientnet_b0 fastvit_t8 ghostnet_050 gmlp_s16_224
hrnet_w18_small levit_128s maxvit_rmlp_pico_rw_256 mixer_s32_224 mobilenetv3_small_100 mobilevit_xxs
nfnet_l0 pit_ti_224 poolformer_s12 regnety_002 repvgg_a0 resnet18 resnetv2_50 tf_efficientnetv2_b0
tiny_vit_5m_224 visformer_tiny vit_tiny_patch16_224 xcit_nano_12_p16_224""".split()
TORCHVISION = """alexnet convnext_tiny densenet121 efficientnet_b0 googlenet inception_v3 maxvit_t
mnasnet0_5 mobilenet_v2 mobilenet_v3_small regnet_y_400mf resnet18 shufflenet_v2_x0_5 squeezenet1_1
swin_t vit_b_32""".split()


@pytest.mark.parametrize(
    ("package", "names"),
    [
        pytest.param("transformers", (), marks=needs("transformers", "onnxruntime")),
        pytest.param("timm", TIMM, marks=needs("timm", "onnxruntime")),
        pytest.param("torchvision", TORCHVISION, marks=needs("torchvision", "onnxruntime")),
    ],
)
def test_models(package, names, tmp_path):
    out = run(Path(PROGRAMS) / "onnx_models.py", package, *names, cwd=tmp_path, limit=1800)
    assert out.endswith("failed: 0\n") and out.count("onnxruntime") >= 16
