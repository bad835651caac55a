-- rushlight.lua: Rushlight for LuaJIT; made by make_binding.py of rushlight.h and ops.json.
--
-- Tensors are tables with a handle that the garbage collector frees. Operators are functions of this
-- module and methods of tensors: rl.matmul(a, b) and a:matmul(b). Numbers are floats where an operator
-- takes any number; 3LL is a whole one. Lists are tables, nil leaves an argument out.
local ffi = require("ffi")

ffi.cdef [[
@DECLARATIONS@
]]

local C = ffi.load(os.getenv("RUSHLIGHT_LIBRARY") or "@LIBRARY@")
local M = {C = C, ops = {}}
local Tensor = {}

local NONE, TENSOR, TENSORS, INT, FLOAT, BOOL, STRING, INTS, FLOATS, DTYPE, DEVICE = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local NAMES = {str = STRING, DType = DTYPE, Device = DEVICE}

local function checked(code)
  if code ~= 0 then error(ffi.string(C.rush_last_error()), 3) end
end

local function wrap(handle)
  return setmetatable({handle = ffi.gc(handle, C.rush_tensor_free)}, Tensor)
end

local function is_tensor(x) return getmetatable(x) == Tensor end

-- Fills one argument; `kept` holds what it points to until the call is over.
local function fill(v, x, kind, kept)
  if x == nil then
    v.kind = NONE
  elseif is_tensor(x) then
    v.kind, v.as.pointer = TENSOR, x.handle
  elseif kind:sub(1, 6) == "Tensor" and kind:sub(-1) == "]" then
    local list = ffi.new("rush_tensor*[?]", #x)
    for i, t in ipairs(x) do list[i - 1] = t.handle end
    kept[#kept + 1] = list
    v.kind, v.count, v.as.pointer = TENSORS, #x, list
  elseif type(x) == "table" then
    local whole = kind:sub(1, 3) == "int"
    local list = ffi.new(whole and "int64_t[?]" or "double[?]", #x, x)
    kept[#kept + 1] = list
    v.kind, v.count, v.as.pointer = whole and INTS or FLOATS, #x, list
  elseif type(x) == "boolean" then
    v.kind, v.as.integer = BOOL, x and 1 or 0
  elseif type(x) == "string" then
    local text = ffi.new("char[?]", #x + 1, x)
    kept[#kept + 1] = text
    v.kind, v.as.pointer = NAMES[kind] or STRING, text
  elseif type(x) == "cdata" or kind:sub(1, 3) == "int" then
    v.kind, v.as.integer = INT, x
  else
    v.kind, v.as.real = FLOAT, x
  end
end

local function take(v)
  if v.kind == TENSOR then return wrap(ffi.cast("rush_tensor*", v.as.pointer)) end
  if v.kind == TENSORS then
    local list, handles = {}, ffi.cast("rush_tensor**", v.as.pointer)
    for i = 1, v.count do
      local out = ffi.new("rush_tensor*[1]")
      checked(C.rush_tensor_share(handles[i - 1], out))
      list[i] = wrap(out[0])
    end
    C.rush_value_free(v)
    return list
  end
  if v.kind == FLOAT then return v.as.real end
  if v.kind == BOOL then return v.as.integer ~= 0 end
  if v.kind == INT then return tonumber(v.as.integer) end
  C.rush_value_free(v)
  return nil
end

local function define(name, overloads)
  local function call(...)
    local n, given, kept = select("#", ...), {...}, {}
    local kinds
    for _, row in ipairs(overloads) do
      if not kinds and #row >= n then kinds = row end
    end
    if not kinds then error(name .. ": too many arguments", 2) end
    local args = ffi.new("rush_value[?]", math.max(n, 1))
    for i = 1, n do fill(args[i - 1], given[i], kinds[i], kept) end
    local results, count = ffi.new("rush_value[8]"), ffi.new("int[1]")
    checked(C.rush_call(name, args, n, results, 8, count))
    local out = {}
    for i = 1, count[0] do out[i] = take(results[i - 1]) end
    return unpack(out, 1, count[0])
  end
  M.ops[name] = call
  if M[name] == nil then M[name] = call end
end

-- Tensors ----------------------------------------------------------------------------------------

function M.tensor(numbers, sizes)
  local data = ffi.new("float[?]", #numbers, numbers)
  local shape, out = ffi.new("int64_t[?]", #sizes, sizes), ffi.new("rush_tensor*[1]")
  checked(C.rush_tensor_from_data(data, shape, #sizes, "float32", out))
  return wrap(out[0])
end

function M.manual_seed(seed) checked(C.rush_manual_seed(seed)) end

Tensor.__index = function(_, name)
  return rawget(Tensor, name) or M.ops[name]
end

function Tensor:numbers()
  local n = tonumber(C.rush_tensor_numel(self.handle))
  local data, list = ffi.new("float[?]", n), {}
  checked(C.rush_tensor_copy_to(self.handle, data, 4 * n))
  for i = 1, n do list[i] = data[i - 1] end
  return list
end

function Tensor:size(dim) return tonumber(C.rush_tensor_size(self.handle, dim)) end
function Tensor:backward() checked(C.rush_backward(self.handle, 0)) end

function Tensor:requires_grad_()
  checked(C.rush_set_requires_grad(self.handle, 1))
  return self
end

function Tensor:grad()
  local out = ffi.new("rush_tensor*[1]")
  checked(C.rush_grad(self.handle, out))
  return out[0] ~= nil and wrap(out[0]) or nil
end

Tensor.__add = function(a, b) return M.ops.add(a, b) end
Tensor.__sub = function(a, b) return M.ops.sub(a, b) end
Tensor.__mul = function(a, b) return M.ops.mul(a, b) end
Tensor.__div = function(a, b) return M.ops.div(a, b) end
Tensor.__unm = function(a) return M.ops.neg(a) end

-- Optimisers and programs ------------------------------------------------------------------------

local function handles_of(tensors)
  local list = ffi.new("rush_tensor*[?]", #tensors)
  for i, t in ipairs(tensors) do list[i - 1] = t.handle end
  return list
end

local Optimizer = {}
Optimizer.__index = Optimizer
function Optimizer:step() checked(C.rush_optimizer_step(self.handle)) end
function Optimizer:zero_grad() checked(C.rush_optimizer_zero_grad(self.handle)) end

function M.adam(parameters, lr)
  local out = ffi.new("rush_optimizer*[1]")
  checked(C.rush_adam_new(handles_of(parameters), #parameters, lr, 0.9, 0.999, 1e-8, 0, 0, out))
  return setmetatable({handle = ffi.gc(out[0], C.rush_optimizer_free)}, Optimizer)
end

function M.sgd(parameters, lr, momentum)
  local out = ffi.new("rush_optimizer*[1]")
  checked(C.rush_sgd_new(handles_of(parameters), #parameters, lr, momentum or 0, 0, out))
  return setmetatable({handle = ffi.gc(out[0], C.rush_optimizer_free)}, Optimizer)
end

local Program = {}
Program.__index = Program

function M.load(path)
  local out = ffi.new("rush_program*[1]")
  checked(C.rush_program_load(path, nil, out))
  return setmetatable({handle = ffi.gc(out[0], C.rush_program_free)}, Program)
end

function Program:run(method, ...)
  local inputs = {...}
  local outputs, count = ffi.new("rush_tensor*[16]"), ffi.new("int[1]")
  checked(C.rush_program_run(self.handle, method, handles_of(inputs), #inputs, outputs, 16, count))
  local list = {}
  for i = 1, count[0] do list[i] = wrap(outputs[i - 1]) end
  return unpack(list)
end
Program.__call = function(self, ...) return self:run("forward", ...) end

-- @FUNCTIONS@

return M
