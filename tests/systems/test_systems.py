"""A system is there, or one line says what was looked for and what to do."""

from __future__ import annotations

import subprocess
import sys

import pytest
import tensorflow as tf

from rl.errors import Unavailable, UsageError
from rl.systems import get_system, strategy, use_system


def test_local_computes_on_the_processor():
    system = get_system("local")
    assert (system.name, system.devices) == ("local", ("/device:CPU:0",))
    assert system.strategy.num_replicas_in_sync == 1
    with system.strategy.scope():
        variable = tf.Variable(tf.ones([2]))
    assert "CPU:0" in variable.device
    assert system.strategy.run(lambda: variable * 2).numpy().tolist() == [2, 2]


@pytest.mark.parametrize(
    ("name", "near"), [("gpus", "did you mean gpu"), ("Local", "did you mean local"), ("", "known")]
)
def test_an_unknown_name_is_answered_with_the_near_ones(name, near):
    with pytest.raises(UsageError, match=near):
        get_system(name)


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="there is a GPU")
def test_no_gpu_is_one_clear_line():
    with pytest.raises(UsageError, match=r"--sys gpu: TensorFlow sees no GPU; .*--sys local") as caught:
        get_system("gpu")
    assert "\n" not in str(caught.value) and not isinstance(caught.value, Unavailable)


@pytest.mark.parametrize("name", ["gpu", "tpu"])
def test_an_accelerator_that_a_pod_was_given_and_does_not_see_may_be_there_on_another_node(name, monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: [])
    monkeypatch.setattr(tf.test, "is_built_with_gpu_support", lambda: True)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(Unavailable, match=f"--sys {name}"):
        get_system(name)


def test_an_image_without_gpu_support_is_the_same_on_another_node(monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: [])
    monkeypatch.setattr(tf.test, "is_built_with_gpu_support", lambda: False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(UsageError, match="built without GPU support") as caught:
        get_system("gpu")
    assert not isinstance(caught.value, Unavailable), "a Job would try it again, on a GPU each time"


def test_a_pod_is_told_why_its_tpu_cannot_be_had(monkeypatch):
    def refuse(_):
        raise RuntimeError("cannot open /dev/vfio/0: Permission denied\nmore")

    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", refuse)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(
        Unavailable, match=r"\(RuntimeError cannot open /dev/vfio/0: Permission denied\)"
    ) as caught:
        get_system("tpu")
    assert "more" not in str(caught.value)


def test_the_advice_depends_on_the_build(monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: [])
    monkeypatch.setattr(tf.test, "is_built_with_gpu_support", lambda: True)
    with pytest.raises(UsageError, match="CUDA_VISIBLE_DEVICES"):
        get_system("gpu")
    monkeypatch.setattr(tf.test, "is_built_with_gpu_support", lambda: False)
    with pytest.raises(UsageError, match=r"setup\.sh --sys gpu"):
        get_system("gpu")


def test_all_gpus_are_taken_and_grow(monkeypatch):
    gpus = [tf.config.PhysicalDevice(f"/physical_device:GPU:{i}", "GPU") for i in range(2)]
    asked = []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: gpus if kind == "GPU" else [])
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda *call: asked.append(call))
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", lambda *call: asked.append(call))
    monkeypatch.setattr(tf.distribute, "MirroredStrategy", lambda devices: devices)
    several = get_system("gpu")
    assert several.devices == ("/device:GPU:0", "/device:GPU:1") and several.strategy == list(several.devices)
    assert asked == [(gpu, True) for gpu in gpus]
    del gpus[1]
    one = get_system("gpu")
    assert one.devices == ("/device:GPU:0",) and one.strategy is tf.distribute.get_strategy()
    asked.clear()
    get_system("local")
    assert asked == [([], "GPU")]


def test_the_system_in_use_gives_its_strategy():
    assert use_system("local").strategy is strategy()


def test_a_started_tensorflow_keeps_its_devices(monkeypatch):
    def refuse(*_):
        raise RuntimeError("Visible devices cannot be modified after being initialized")

    gpus = [tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: gpus if kind == "GPU" else [])
    monkeypatch.setattr(tf.config, "set_visible_devices", refuse)
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", refuse)
    assert get_system("gpu").name == "gpu"
    assert get_system("local").name == "local"


@pytest.mark.slow
def test_no_tpu_is_one_clear_line():
    """In a process of its own: looking for a TPU starts TensorFlow's runtime."""
    code = "from rl.systems import get_system; from rl.errors import Unavailable, UsageError\n"
    code += "for name in ('tpu', 'gcp'):\n try: get_system(name)\n except UsageError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    line, again = done.stdout.splitlines()
    assert again == line and "--sys gcp is the old name of --sys tpu\n" in done.stderr
    assert line.startswith("--sys tpu: no TPU is attached to this machine (") and "--sys local" in line


def test_systems_are_known_without_tensorflow():
    code = "import sys, rl.systems; print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
