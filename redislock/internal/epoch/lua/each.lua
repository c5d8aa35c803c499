-- SPDX-License-Identifier: Apache-2.0
-- Gives: each.

-- each calls f for one of n locks. It turns an error into an answer, so that the call goes on
-- with the other locks.
local function each(n, f, ...)
  if n == 1 then return f(...) end
  local ok, answer = pcall(f, ...)
  if ok then return answer end
  return {err = (type(answer) == 'table' and answer.err or tostring(answer)) .. ' script: for one of several locks'}
end
