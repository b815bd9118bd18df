import { createLoop, type Loop, type LoopEvents } from '../../../core/loop.ts'
import type { Sender, SendingCounts, SendingTrouble } from '../../../monitor/index.ts'
import type { Served, Space } from '../call.ts'
import type { NamespaceSendings } from '../metrics/module-gauges.ts'
import type { Spaces } from '../namespace-services.ts'

/**
 * Sends the notifications of monitors in every namespace with subscriptions, also before the first request. Each such
 * namespace has a sender as long as it has subscriptions; servers that share a store share the work.
 */
export interface Senders extends AsyncDisposable {
  readonly loop: Loop
  /** What was sent from here since the server started. */
  counts(): readonly NamespaceSendings[]
  /** Begins no more messages, and waits so long for those under way; what is cut then is marked when it is sent again. */
  stop(graceMs: number): Promise<void>
}

interface Sending {
  readonly space: Space
  readonly sender: Sender
  /** Settles when the sender has stopped; the first caller that ends it sets it. */
  ended?: Promise<void>
}

export interface SendersParts {
  readonly served: Pick<Served, 'subscribedNamespaces'>
  readonly spaces: Spaces
  /** Learns of the loop's trouble. Must not throw. */
  readonly onTrouble?: (loop: string, trouble: keyof LoopEvents, event: object) => void
  /**
   * Learns of every notification that is given up. Of those that wait for a key it learns once for each subscription.
   */
  readonly onSendingTrouble?: (namespace: string, trouble: SendingTrouble) => void
}

const lookMs = 1_000
const maxNamespaces = 1_000
const defaultGraceMs = 10_000

type Counts = Readonly<Record<string, Readonly<SendingCounts>>>

export function createSenders({
  served,
  spaces,
  onTrouble = () => {},
  onSendingTrouble,
}: SendersParts): Senders {
  const sending = new Map<string, Sending>()
  /** Of senders that have ended; the longest ended first. */
  const past = new Map<string, Counts>()
  let stopped: Promise<void> | undefined

  async function begin(namespace: string): Promise<void> {
    // A separate reference: the namespace's services stay while the sender works.
    const space = spaces.enter(namespace)
    let sender: Sender
    try {
      sender = space.monitor.sender({ onTrouble: troubleReporter(namespace) })
    } catch (error) {
      spaces.leave(space)
      throw error
    }
    sending.set(namespace, { space, sender })
    try {
      await sender.start()
    } catch (error) {
      await end(namespace)
      throw error
    }
  }

  /** A notification that waits for a key is tried repeatedly, so each subscription is reported once. */
  function troubleReporter(namespace: string): (trouble: SendingTrouble) => void {
    const sealed = new Set<string>()
    return (trouble) => {
      const isKnown = trouble.kind === 'sealed' && sealed.has(trouble.subscriptionId)
      if (trouble.kind === 'sealed') sealed.add(trouble.subscriptionId)
      if (!isKnown) onSendingTrouble?.(namespace, trouble)
    }
  }

  async function end(namespace: string, graceMs = defaultGraceMs): Promise<void> {
    const known = sending.get(namespace)
    if (known === undefined) return
    known.ended ??= stopOne(namespace, known, graceMs)
    await known.ended
  }

  async function stopOne(namespace: string, known: Sending, graceMs: number): Promise<void> {
    try {
      await known.sender.stop({ graceMs })
    } finally {
      sending.delete(namespace)
      const counts = sum(past.get(namespace) ?? {}, known.sender.counts())
      past.delete(namespace)
      past.set(namespace, counts)
      if (past.size > maxNamespaces) past.delete(past.keys().next().value!)
      spaces.leave(known.space)
    }
  }

  const loop = createLoop({
    name: 'server.senders',
    idleMs: lookMs,
    async step({ signal, progress }): Promise<'idle'> {
      const subscribed = new Set(await served.subscribedNamespaces(maxNamespaces))
      const wrong: unknown[] = []
      // One that cannot begin or end holds up no other.
      const attempt = async (work: () => Promise<void>) => {
        await work().catch((error: unknown) => wrong.push(error))
        progress()
      }
      for (const namespace of subscribed) {
        if (signal.aborted) return 'idle'
        if (!sending.has(namespace)) await attempt(() => begin(namespace))
      }
      const over = [...sending.keys()].filter((namespace) => !subscribed.has(namespace))
      await Promise.all(over.map((namespace) => attempt(() => end(namespace))))
      if (wrong.length > 0) throw wrong[0]
      return 'idle'
    },
  })
  function stop(graceMs: number): Promise<void> {
    stopped ??= stopAll(graceMs)
    return stopped
  }

  async function stopAll(graceMs: number): Promise<void> {
    // One grace for both: a look that hangs does not take that of the messages under way.
    await Promise.all([
      loop.stop({ graceMs }),
      ...[...sending.keys()].map((namespace) => end(namespace, graceMs)),
    ])
    // What the last look began.
    await Promise.all([...sending.keys()].map((namespace) => end(namespace, 0)))
  }

  for (const trouble of ['failed', 'stalled', 'recovered'] as const)
    loop.events.on(trouble, (event) => onTrouble(loop.name, trouble, event))

  return {
    loop,
    counts() {
      const namespaces = new Set([...past.keys(), ...sending.keys()])
      return Array.from(namespaces, (namespace) => ({
        namespace,
        counts: sum(past.get(namespace) ?? {}, sending.get(namespace)?.sender.counts() ?? {}),
      }))
    },
    stop,
    [Symbol.asyncDispose]: () => stop(defaultGraceMs),
  }
}

function sum(one: Counts, other: Counts): Counts {
  const types = new Set([...Object.keys(one), ...Object.keys(other)])
  return Object.fromEntries(
    Array.from(types, (type) => {
      const added = { ...(one[type] ?? other[type]!) }
      if (one[type] && other[type])
        for (const what of Object.keys(added) as (keyof SendingCounts)[]) added[what] += other[type][what]
      return [type, added]
    }),
  )
}
