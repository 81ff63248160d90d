"""What is compared is what it seems, with a code of somebody else's in the place of the authors'."""

import json
import subprocess
import sys
from math import isnan
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from PIL import Image

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "ccfc_round.py"

MAIN = """
import sys
from torchvision import transforms
from torchvision.datasets import MNIST
from tqdm import tqdm

views = transforms.Compose([
    transforms.RandomResizedCrop(28, scale=(0.5, 1.0)),
    transforms.RandomRotation(10),
    transforms.RandomApply([lambda image: image], p=0.5),
    transforms.ToTensor(),
])
data = MNIST(root="", train=True, download=True, transform=views)
for _ in range(100):
    bar = tqdm([data[0][0], data[1][0]])
    for image in bar:
        assert image.shape == (1, 28, 28)
        bar.set_description("learning")
"""


def measured(folder: Path, contestant: str, phase: str) -> dict[str, float]:
    given = ["--contestant", contestant, "--phase", phase, "--samples", "16", "--theirs", str(folder)]
    done = subprocess.run([sys.executable, str(SCRIPT), *given], capture_output=True, text=True, check=True)
    seconds: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return seconds


def test_a_code_that_goes_on_for_ever_is_stopped_and_has_a_time(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(MAIN)
    seconds = measured(tmp_path, "theirs", "views")
    assert 0 < seconds["training"] < seconds["round"] < 1


@pytest.mark.parametrize("phase", ["views", "clusters"])
def test_ours_has_a_time(benchmark: ModuleType, phase: str) -> None:
    seconds = benchmark.ours(4, phase, "float32")
    assert 0 < seconds["round"] < 30
    assert isnan(seconds["training"]) == (phase == "clusters")


def test_the_stand_ins_for_transforms_do_what_their_names_say(benchmark: ModuleType) -> None:
    image = Image.fromarray(np.arange(784, dtype=np.uint8).reshape(28, 28) // 4, mode="L")
    whole = benchmark.ToTensor()(image)
    assert torch.allclose(whole[0, 0, :5], torch.arange(5) // 4 / 255)
    cropped = benchmark.RandomResizedCrop(28, scale=(0.5, 0.5))(image)
    assert cropped.size == (28, 28)
    assert benchmark.RandomRotation(0)(image).tobytes() == image.tobytes()
    never = benchmark.RandomApply([lambda _: None], p=0.0)
    assert never(image) is image
