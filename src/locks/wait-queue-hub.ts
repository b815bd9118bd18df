import type { LineView, LockKey } from './lock-store.ts'
import { lineTopic } from './lock-topics.ts'
import type { LocksParts } from './locks.ts'
import type { Requester } from './rules/index.ts'
import { wakeDelayMs } from './wait-queue-notifier.ts'

/**
 * Looks at lines for all who look on: one reading of a line is shared by everybody, and made after a wake-up or when its
 * time has come, so the cost of a change does not grow with those who see it by more than telling them.
 */
export interface LineHub {
  /** Tells the line as it is now, and then whenever it changed, until the returned function is called. */
  subscribe(key: LockKey, seen: (view: LineView | undefined) => void): () => void
  close(): void
}

interface Watched {
  readonly key: LockKey
  readonly subscribers: Set<(view: LineView | undefined) => void>
  readonly unlisten: () => void
  view: LineView | undefined
  isRead: boolean
  isReading: boolean
  isWoken: boolean
  timer: ReturnType<typeof setTimeout> | undefined
}

const places = new WeakMap<LineView, ReadonlyMap<string, number>>()

/** Where those who are shown stand, by name; made once for all who look it up. */
export function placesIn(view: LineView): ReadonlyMap<string, number> {
  const known = places.get(view)
  if (known) return known
  const made = new Map(view.waiters.map((waiter) => [nameOf(waiter), waiter.position]))
  places.set(view, made)
  return made
}

/** A requester as one text, in one piece; no two have the same. */
export function nameOf({ node, requestId }: Requester): string {
  return [node.length, node, requestId].join(':')
}

/** A line that changes all the time is shown ten times a second; its wake-up comes a moment late. */
const gapMs: number = 100 - wakeDelayMs
const shownWaiters = 100

export function createLineHub({ store, notifier, remoteWakeUps }: LocksParts): LineHub {
  const lines = new Map<string, Watched>()
  const pollMs = remoteWakeUps ? 5_000 : 1_000

  function open(key: LockKey): Watched {
    const line: Watched = {
      key,
      subscribers: new Set(),
      unlisten: notifier.listen([lineTopic(key)], () => {
        // One reading answers all wake-ups before it; wake-ups that do not stop must not put it off for ever.
        if (line.isWoken) return
        line.isWoken = true
        later(line, gapMs)
      }),
      view: undefined,
      isRead: false,
      isReading: false,
      isWoken: false,
      timer: undefined,
    }
    void read(line)
    return line
  }

  function later(line: Watched, ms: number): void {
    if (line.isReading) return
    clearTimeout(line.timer)
    line.timer = setTimeout(() => void read(line), ms)
    line.timer.unref?.()
  }

  async function read(line: Watched): Promise<void> {
    line.isReading = true
    line.isWoken = false
    try {
      const view = await store.inspect(line.key, shownWaiters)
      const isNews = !line.isRead || view?.revision !== line.view?.revision
      line.view = view
      line.isRead = true
      if (isNews) for (const seen of [...line.subscribers]) seen(view)
    } catch {
      // The store is in trouble, or was closed: who waits in the line learns that by itself, and the next look follows.
    }
    line.isReading = false
    if (line.subscribers.size > 0) later(line, line.isWoken ? gapMs : pollMs * (0.75 + Math.random() / 2))
  }

  return {
    subscribe(key, seen) {
      const name = lineTopic(key)
      const line = lines.get(name) ?? open(key)
      lines.set(name, line)
      line.subscribers.add(seen)
      if (line.isRead) seen(line.view)
      return () => {
        line.subscribers.delete(seen)
        if (line.subscribers.size > 0) return
        clearTimeout(line.timer)
        line.unlisten()
        if (lines.get(name) === line) lines.delete(name)
      }
    },
    close() {
      for (const { timer, unlisten } of lines.values()) {
        clearTimeout(timer)
        unlisten()
      }
      lines.clear()
    },
  }
}
