"""Weights of convolutions are kept in oneDNN's layouts, and nobody who writes to them is fooled.

Each way of writing to a weight is tried after the copy was made and used; the next convolution has
to see what was written. `stats()` tells that a copy was there, so that no test passes by accident.
"""

import copy
import ctypes
import io
import os
import threading

import numpy as np
import pytest

import rushlight as torch
from rushlight import config, nn
from rushlight.nn import functional as F

stats = config.weight_layout_stats


def fresh_weight(*sizes):
    values = np.random.default_rng(0).standard_normal(sizes or (32, 32, 3, 3))
    return torch.tensor(values, dtype=torch.float32)


IMAGE = torch.tensor(np.random.default_rng(1).standard_normal((1, 32, 8, 8)), dtype=torch.float32)


def convolve(weight):
    with torch.no_grad():
        return F.conv2d(IMAGE, weight, padding=1)


def expected(weight):
    with config.patch(weight_layouts=False):
        return convolve(weight.detach().clone())


def keeps_copies():
    w = fresh_weight()
    before = stats()["copies"]
    convolve(w)
    return stats()["copies"] > before


pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available() or not keeps_copies(),
    reason="oneDNN takes this weight as it is, or is not there",
)


@pytest.fixture
def kept():
    """A weight whose copy has been used."""
    w = fresh_weight()
    convolve(w)
    before = stats()["hits"]
    convolve(w)
    assert stats()["hits"] == before + 1
    return w


def agree(weight):
    torch.testing.assert_close(convolve(weight), expected(weight), rtol=0, atol=0)


def through_numpy(w):
    w.numpy()[:] = 1


def through_an_earlier_array(w):
    array = w.numpy()
    convolve(w)
    array[0] = 3


def through_a_memoryview(w):
    memoryview(w.flatten())[0] = 9.0


def through_dlpack(w):
    np.from_dlpack(w)  # read-only there, but the address is out
    ctypes.c_float.from_address(w.data_ptr()).value = 5.0


def through_its_address(w):
    ctypes.memset(w.data_ptr(), 0, w.numel() * 4)


def through_storage_bytes(w):
    w.untyped_storage()[0:64] = 0


def through_a_slice_of_storage(w):
    w.untyped_storage()[128:256].fill_(0)


def through_the_storage_buffer(w):
    memoryview(w.untyped_storage())[4:8] = b"\0\0\0\0"


def through_storage_copy(w):
    w.untyped_storage().copy_(torch.ones(w.numel()).untyped_storage())


def through_typed_storage(w):
    w.storage()[3] = 7.0


def through_set(w):
    w.set_(torch.ones_like(w))


def through_assigned_data(w):
    w.data = torch.full_like(w, 2)


def through_resize(w):
    w.resize_(64, 32, 3, 3).fill_(1)


def through_out(w):
    torch.add(w, 1, out=w)


def through_several_outs(w):
    torch.max(torch.ones(32, 32, 3, 3, 2), -1, out=(w, torch.empty(32, 32, 3, 3, dtype=torch.long)))


def through_foreach(w):
    torch._foreach_mul_([w], 2.0)


def through_a_view(w):
    w[3, :, 1:].mul_(2)


def through_a_view_of_data(w):
    w.data.view(-1)[5:9].zero_()


def through_detached(w):
    w.detach().add_(1)


def through_as_strided(w):
    w.as_strided((10,), (7,), 3).fill_(4)


def through_another_dtype(w):
    w.view(torch.int32).bitwise_or_(1 << 22)


def through_index(w):
    w[torch.tensor([1, 2])] = 0.5


def through_shared_memory(w):
    w.share_memory_()
    w.numpy()[1] = 2


def through_batch_norm(w):
    mean = w.view(-1)[:32]
    F.batch_norm(torch.randn(4, 32, 3), mean, torch.ones(32), training=True)


def through_random_numbers(w):
    nn.init.kaiming_normal_(w)


def through_inference_mode(w):
    with torch.inference_mode():
        w.mul_(3)


def through_a_thread(w):
    thread = threading.Thread(target=lambda: w.add_(1))
    thread.start()
    thread.join()


WRITERS = [f for name, f in list(globals().items()) if name.startswith("through_")]


@pytest.mark.parametrize("write", WRITERS, ids=lambda f: f.__name__)
def test_writes_are_seen(kept, write):
    before = convolve(kept)
    write(kept)
    agree(kept)
    assert convolve(kept).shape != before.shape or not torch.equal(convolve(kept), before)
    agree(kept)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("rule", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_optimizers_are_seen(kept, rule, fused):
    weight = nn.Parameter(kept)
    with config.patch(fused_optimizer=fused):
        optimizer = getattr(torch.optim, rule)([weight], lr=0.1)
        for _ in range(3):
            before = convolve(weight)
            optimizer.zero_grad()
            F.conv2d(IMAGE, weight, padding=1).square().sum().backward()
            optimizer.step()
            agree(weight)
            assert not torch.equal(convolve(weight), before)


def test_gradients_as_weights():
    w, x = fresh_weight().requires_grad_(), IMAGE
    for _ in range(3):
        F.conv2d(x, w, padding=1).sum().backward()
        agree(w.grad)
        agree(w.grad)


def test_second_derivatives_see_their_own_weights():
    w = fresh_weight(8, 8, 3, 3).double().requires_grad_()
    x = IMAGE[:, :8].double().requires_grad_()
    assert torch.autograd.gradgradcheck(
        lambda x, w: F.conv2d(x[:, :, :4, :4], w, padding=1), (x, w), atol=1e-4
    )


def test_training_keeps_nothing_until_a_layout_is_asked_for_twice():
    w = fresh_weight().requires_grad_()
    start = stats()
    F.conv2d(IMAGE, w, padding=1).sum().backward()
    assert stats()["copies"] == start["copies"]
    F.conv2d(IMAGE, w, padding=1)
    assert stats()["copies"] == start["copies"] + 1
    F.conv2d(IMAGE, w, padding=1)
    assert stats()["hits"] == start["hits"] + 1
    with torch.no_grad():
        w.add_(1)
    F.conv2d(IMAGE, w, padding=1)
    assert stats()["copies"] == start["copies"], "the old copy goes with the next use"


def test_memory_is_given_back():
    before = stats()
    w = fresh_weight(64, 32, 3, 3)
    convolve(w)
    assert stats()["copies"] == before["copies"] + 1
    assert stats()["bytes"] >= before["bytes"] + w.numel() * 4
    del w
    assert stats()["copies"] == before["copies"]
    assert stats()["bytes"] == before["bytes"]


def test_many_weights_in_one_storage_take_bounded_memory():
    flat = torch.randn(40, 32, 32, 3, 3)
    before = stats()["bytes"]
    for i in range(40):
        agree(flat[i])
        agree(flat[i])
    assert stats()["bytes"] - before <= 2 * flat.numel() * 4
    flat[7].zero_()
    for i in (6, 7, 8):
        agree(flat[i])


def test_two_layouts_of_one_weight_do_not_mix(kept):
    agree(kept)
    agree(kept.transpose(0, 1))
    agree(kept.contiguous(memory_format=torch.channels_last))
    view = kept.view(16, 64, 3, 3)
    x = torch.randn(1, 64, 8, 8)
    with torch.no_grad():
        y = F.conv2d(x, view)
        torch.testing.assert_close(y, F.conv2d(x, view.clone()), rtol=0, atol=0)
    agree(kept)


@pytest.mark.parametrize("size", [7, 8, 9, 20, 33])
def test_sizes_of_images_share_a_copy_or_have_their_own(kept, size):
    x = torch.randn(2, 32, size, size)
    with torch.no_grad():
        y = F.conv2d(x, kept, padding=1)
        with config.patch(weight_layouts=False):
            torch.testing.assert_close(y, F.conv2d(x, kept, padding=1), rtol=0, atol=0)


def test_saving_does_not_end_it(kept):
    file = io.BytesIO()
    torch.save({"w": kept}, file)
    convolve(kept)
    before = stats()["hits"]
    convolve(kept)
    assert stats()["hits"] == before + 1
    loaded = torch.load(io.BytesIO(file.getvalue()))["w"]
    convolve(loaded)
    before = stats()["hits"]
    torch.testing.assert_close(convolve(loaded), convolve(kept), rtol=0, atol=0)
    assert stats()["hits"] == before + 2
    loaded.mul_(2)
    agree(loaded)
    agree(kept)


def test_a_lent_weight_is_not_kept_any_more(kept):
    array = kept.numpy()
    before = stats()
    convolve(kept)
    convolve(kept)
    assert stats()["hits"] == before["hits"]
    assert stats()["copies"] < before["copies"]
    del array


def test_foreign_memory_is_never_kept():
    array = np.ones((32, 32, 3, 3), np.float32)
    w = torch.from_numpy(array)
    before = stats()
    convolve(w)
    convolve(w)
    assert stats()["copies"] == before["copies"] and stats()["hits"] == before["hits"]
    array[:] = 2
    agree(w)


def test_modules_that_are_loaded_copied_and_frozen():
    model = nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1)).eval()
    other = nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1)).eval()

    def plain(module):
        with config.patch(weight_layouts=False), torch.no_grad():
            return copy.deepcopy(module)(IMAGE)

    with torch.no_grad():
        for _ in range(2):
            model(IMAGE), other(IMAGE)
        model.load_state_dict(other.state_dict())
        torch.testing.assert_close(model(IMAGE), plain(other), rtol=0, atol=0)
        twin = copy.deepcopy(model)
        twin[0].weight.mul_(2)
        torch.testing.assert_close(twin(IMAGE), plain(twin), rtol=0, atol=0)
        torch.testing.assert_close(model(IMAGE), plain(other), rtol=0, atol=0)
        nn.utils.vector_to_parameters(
            nn.utils.parameters_to_vector(twin.parameters()), model.parameters()
        )
        torch.testing.assert_close(model(IMAGE), plain(twin), rtol=0, atol=0)


def test_the_switch(kept):
    before = stats()
    with config.patch(weight_layouts=False):
        convolve(kept)
        assert stats()["hits"] == before["hits"]
        assert stats()["copies"] == before["copies"] - 1
    assert config.weight_layouts


def test_grouped_transposed_and_half():
    def all_three(w):
        return (
            F.conv2d(IMAGE, w, padding=1, groups=4),
            F.conv_transpose2d(IMAGE, w, groups=4),
            F.conv2d(IMAGE.bfloat16(), w.bfloat16(), padding=1, groups=4),
        )

    w = fresh_weight(32, 8, 3, 3)
    with torch.no_grad():
        for _ in range(3):
            found = [all_three(w), all_three(w)]
            with config.patch(weight_layouts=False):
                plain = all_three(w.clone())
            for results in found:
                torch.testing.assert_close(results, plain, rtol=0, atol=0)
            w += 1


@pytest.mark.threads
def test_threads_that_read_and_one_that_writes():
    """No reader may go on with an old copy once the writer is done."""
    w = fresh_weight()
    stop = threading.Event()
    errors = []

    def read():
        try:
            while not stop.is_set():
                convolve(w)
        except Exception as error:
            errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for thread in readers:
        thread.start()
    for _ in range(50):
        w.mul_(1.01)
    stop.set()
    for thread in readers:
        thread.join()
    assert not errors
    agree(w)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_its_own(kept):
    before = convolve(kept)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            kept.mul_(2)
            same = torch.allclose(convolve(kept), 2 * before, rtol=1e-4, atol=1e-4)
            status = 0 if same else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    torch.testing.assert_close(convolve(kept), before, rtol=0, atol=0)
