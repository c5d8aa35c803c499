-- SPDX-License-Identifier: Apache-2.0
-- Gives: each.

-- each does something for one of n locks. What fails for one does not for the others.
local function each(n, f, ...)
  if n == 1 then return f(...) end
  local ok, answer = pcall(f, ...)
  if ok then return answer end
  return {err = (type(answer) == 'table' and answer.err or tostring(answer)) .. ' script: for one of several locks'}
end
