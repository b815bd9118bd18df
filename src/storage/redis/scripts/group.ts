/**
 * Wait queues of one resource whose operations exclude each other: src/locks/rules/wait-queue-group.ts, in Lua. The
 * script's variables hold one wait queue at a time, the current one. The others are stored with all of their variables,
 * and restored when needed.
 */

/** All variables of one wait queue, without those of the whole step. */
const ofQueue: string = [
  'rowKey, kindAt, shardKey, name',
  'revision, attempt, grantFrom, results, turns',
  'hasProgress, hasDetails, lastToken, dueAt, forgetAt, keptUntil, pruneAt',
  'lastKind, lastAttempt, lastAt, hasLastValue, lastWho',
  'holder, token, heldAttempt, since, ttlMs, ends, takeUpBy, seq',
  'call, callKind, callEveryone, callRevision, callNotified',
  'wasBusy, wasUsed, isChanged, isSaved, isEveryone, isLapsed, notified',
  'fields, touched',
].join(', ')

const countOfQueue: number = ofQueue.split(',').length

/** Switches between the wait queues of a group. */
export const groupText: string = `
-- The wait queues, the step's own first; the index of the current one; the highest revision of all.
local group, current, groupRevision

local function putAside()
  return { ${ofQueue} }
end

local function takeUpQueue(aside)
  ${ofQueue} = unpack(aside, 1, ${countOfQueue})
end

local function switchTo(no)
  if no == current then return end
  group[current].aside = putAside()
  takeUpQueue(group[no].aside)
  current = no
end

-- Reads all of them. groupText has their number without the first, and the pairs that exclude each other: '2 1-2,2-3'.
local function openGroup(keysAt, groupText)
  openQueue(keysAt)
  group, current, groupRevision = { { excluded = {} } }, 1, revision
  if groupText == '' then return end
  for no = 2, 1 + tonumber(string.match(groupText, '%d+')) do
    group[current].aside, current = putAside(), no
    openQueue(keysAt + no - 1)
    group[no] = { excluded = {} }
    if revision > groupRevision then groupRevision = revision end
  end
  for one, other in string.gmatch(groupText, '(%d+)-(%d+)') do
    one, other = tonumber(one), tonumber(other)
    table.insert(group[one].excluded, other)
    table.insert(group[other].excluded, one)
  end
  switchTo(1)
end

-- One order for all of them, so that positions can be compared.
local function nextRevision()
  local least = now * 1000
  return groupRevision < least and least or groupRevision + 1
end

local function change()
  isChanged = true
  revision = nextRevision()
  groupRevision = revision
end
`

/** Decides who is next in any of them. */
export const settleText: string = `
-- The first live waiter. Expired waiters before it are ended, except during a grace.
local function firstLive()
  while true do
    local waiter = firstWaiter()
    if not waiter then
      if attempt > 0 then
        attempt = 0
        change()
      end
      return nil
    end
    if graceUntil() > now then return waiter end
    local gone = goneBy(waiter)
    if not gone then return waiter end
    removeWaiter(waiter)
    conclude(waiter.who, waiter.seq, gone)
  end
end

local function isTaken()
  return holder ~= '' or grantFrom > now
end

-- Ends what has expired in any wait queue, and grants what is free, in order of arrival.
local function settle()
  local heads = {}
  for no = 1, #group do
    switchTo(no)
    if holder ~= '' and endOfTurn() <= now and graceUntil() <= now then lapse() end
  end
  for no = 1, #group do
    switchTo(no)
    group[no].isTaken, group[no].isWaiting = isTaken(), false
    local head = not group[no].isTaken and firstLive()
    if head then heads[#heads + 1] = { no = no, head = head } end
  end
  table.sort(heads, function(a, b) return a.head.seq < b.head.seq end)
  for _, entry in ipairs(heads) do
    local queue, head = group[entry.no], entry.head
    local isKept = graceUntil() > now
    for _, other in ipairs(queue.excluded) do
      if group[other].isTaken or group[other].isWaiting then isKept = true end
    end
    if isKept then
      queue.isWaiting = true
    else
      switchTo(entry.no)
      removeWaiter(head)
      grant(head.who, head.ttlMs, head.seq, now + (head.isStreamed == 1 and streamedTakeUpMs or takeUpMs))
      queue.isTaken = true
    end
  end
  switchTo(1)
end

local advance, grantNext = settle, settle

-- Whether a requester at this position may get the lock at once. Call after advance.
local function isFreeFor(position)
  if graceUntil() > now then return false end
  local isFree = true
  local function look(no)
    switchTo(no)
    local head = firstWaiter()
    if isTaken() or head and head.seq < position then isFree = false end
  end
  look(1)
  for _, other in ipairs(group[1].excluded) do look(other) end
  switchTo(1)
  return isFree
end

-- The holder of another operation that excludes this one, while this one has no holder.
local function otherHolderView()
  local view = false
  for _, other in ipairs(group[1].excluded) do
    switchTo(other)
    if not view and holder ~= '' then
      view = { holder, heldAttempt, since, ends, hasProgress == 1 and get('p') }
    end
  end
  switchTo(1)
  return view
end

-- For a holder that returns with a lost token. If a known holder of an excluded operation has an older token, its turn
-- has ended since. If it has a newer token, it came after the returning holder.
local function clearWayFor(number)
  local isClear = true
  for _, other in ipairs(group[1].excluded) do
    switchTo(other)
    if lastToken > number then isClear = false end
  end
  if isClear then
    for _, other in ipairs(group[1].excluded) do
      switchTo(other)
      if holder ~= '' then
        conclude(holder, seq, 'lost')
        holder = ''
        change()
      end
    end
  end
  switchTo(1)
  return isClear
end
`
