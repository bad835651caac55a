"""Code in the style of PyTorch 0.4 and before."""

import torch
import torch.nn as nn
from torch._six import container_abcs, string_classes
from torch.autograd import Function, Variable
from torch.nn.modules.loss import _Loss
from torch.nn.parameter import Parameter
from torch.utils import model_zoo

assert isinstance([], container_abcs.Sequence) and isinstance("a", string_classes)
assert callable(model_zoo.load_url)

x = Variable(torch.FloatTensor([[1, 2], [3, 4]]), requires_grad=True)
y = Variable(torch.LongTensor([0, 1]))
assert x.type() == "torch.FloatTensor" and y.type() == "torch.LongTensor"
assert isinstance(x, Variable) and isinstance(x.data, torch.FloatTensor)
assert torch.Tensor(2, 3).size() == torch.Size([2, 3])
assert torch.LongTensor(3, 4).shape == (3, 4) and torch.Tensor([5]).tolist() == [5.0]
assert torch.is_tensor(x) and torch.typename(x) == "torch.FloatTensor"
assert x.new(2, 2).type() == x.type() and x.new_zeros(3).sum() == 0
assert x.type("torch.DoubleTensor").dtype == torch.float64
assert x.type(torch.LongTensor).dtype == torch.int64 and x.long().type_as(x).dtype == torch.float32
assert torch.ByteTensor([1, 0]).bool().any()
assert str(torch.float32) == "torch.float32" and repr(torch.Size([1])) == "torch.Size([1])"

net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))
for p in net.parameters():
    p.data.uniform_(-0.1, 0.1)
for name, p in net.named_parameters():
    if "bias" in name:
        p.data.zero_()
net[0].weight.data = torch.eye(4)[:, :2].clone()
criterion = nn.CrossEntropyLoss(size_average=True)
loss = criterion(net(x), y)
loss.backward()
assert abs(loss.data.item() - loss.item()) == 0 and x.grad is not None
for p in net.parameters():
    p.data.add_(-0.1, p.grad.data)
    p.grad = None


class Scale(Function):
    @staticmethod
    def forward(ctx, input, factor):
        ctx.save_for_backward(input)
        ctx.factor = factor
        return input * factor

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_variables if hasattr(ctx, "saved_variables") else ctx.saved_tensors
        return grad_output * ctx.factor, None


assert torch.equal(torch.autograd.grad(Scale.apply(x, 3.0).sum(), x)[0], torch.full_like(x, 3.0))


class Half(_Loss):
    def forward(self, input, target):
        return 0.5 * nn.functional.mse_loss(input, target, reduction=self.reduction)


assert Half()(torch.ones(2), torch.zeros(2)) == 0.5
weight = Parameter(torch.Tensor(3).normal_())
assert weight.requires_grad and isinstance(weight, torch.Tensor)
old = torch.get_default_dtype()
torch.set_default_tensor_type("torch.DoubleTensor")
assert torch.zeros(1).dtype == torch.float64
torch.set_default_tensor_type(torch.FloatTensor)
assert torch.get_default_dtype() == old
torch.nn.utils.clip_grad_norm(net.parameters(), 1.0)
torch.nn.init.xavier_uniform(net[0].weight)
nn.init.normal(net[0].weight, 0, 0.1)
assert nn.functional.sigmoid(torch.zeros(1)) == 0.5 and nn.functional.tanh(torch.zeros(1)) == 0
volatile = torch.no_grad()
with volatile:
    assert not net(x).requires_grad
try:
    torch.cuda.FloatTensor(2)
except (RuntimeError, TypeError, AssertionError):
    pass
else:
    raise AssertionError("there should be no GPU")
_, predicted = torch.max(net(x).data, 1)
assert (predicted == y).sum() >= 0 and predicted.dtype == torch.int64
assert torch.norm(torch.ones(4), p=2).item() == 2.0
assert torch.sum(torch.ones(2, 3), dim=1, keepdim=True).shape == (2, 1)
storage = torch.FloatStorage([1.0, 2.0])
assert torch.FloatTensor(storage).tolist() == [1.0, 2.0] and torch.is_storage(storage)
print("ok")
