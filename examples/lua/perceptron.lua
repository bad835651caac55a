-- A perceptron with one hidden layer learns xor. Run it with LuaJIT beside rushlight.lua, which
-- make_binding.py writes:  luajit perceptron.lua [a program that jit.save or export.save wrote]
local rl = require("rushlight")

rl.manual_seed(0)
local x = rl.tensor({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2})
local y = rl.tensor({0, 1, 1, 0}, {4, 1})
local weights = {
  rl.randn({8, 2}), rl.randn({8}) * 0.5, rl.randn({1, 8}) * 0.5, rl.randn({1}) * 0.1,
}
for _, w in ipairs(weights) do w:requires_grad_() end
local optimizer = rl.adam(weights, 0.05)
local loss
for _ = 1, 300 do
  local hidden = rl.linear(x, weights[1], weights[2]):tanh()
  local error = rl.linear(hidden, weights[3], weights[4]) - y
  loss = (error * error):mean()
  optimizer:zero_grad()
  loss:backward()
  optimizer:step()
end
print(string.format("loss %.9g", loss:numbers()[1]))

-- The rest shows what arguments and results may be.
assert(weights[4]:grad():size(0) == 1)
assert(#rl.cat({x, x}, 0):numbers() == 16)
local values, indices = rl.max(x, 0)
assert(values:numbers()[1] == 1 and indices:size(0) == 2)
local parts = x:split(2, 0)
assert(#parts == 2 and parts[1]:size(0) == 2)
local ok, message = pcall(rl.matmul, x, x)
assert(not ok and message:find("matmul"), message)
assert(not pcall(rl.linear, x))
if arg[1] then
  local program = rl.load(arg[1])
  print("program", table.concat(program(x):numbers(), " "))
end
local count = 0
for _ in pairs(rl.ops) do count = count + 1 end
print("operators", count)
