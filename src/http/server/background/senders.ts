import type { SendingCounts, SendingTrouble } from '../../../monitor/index.ts'
import type { Served } from '../call.ts'
import type { NamespaceSendings } from '../metrics/module-gauges.ts'
import type { Spaces } from '../namespace-services.ts'
import { createNamespaceWork, type NamespaceWork, type OnLoopEvent } from './namespace-work.ts'

/**
 * Sends the notifications of monitors in every namespace with subscriptions. `stop` begins no more messages, and waits
 * for those in flight. A message that is cut off then is marked as a possible repeat when it is sent again.
 */
export interface Senders extends NamespaceWork {
  /** The notifications that this server has sent since it started. */
  counts(): readonly NamespaceSendings[]
}

interface SendersParts {
  readonly served: Pick<Served, 'subscribedNamespaces'>
  readonly spaces: Spaces
  readonly onLoopEvent?: OnLoopEvent
  /**
   * Called for every notification that is given up, and once for each subscription whose notifications wait for a key.
   */
  readonly onSendingTrouble?: (namespace: string, trouble: SendingTrouble) => void
}

/** The most namespaces whose counts are kept after their sender has ended. */
const maxPast = 1_000

type Counts = Readonly<Record<string, Readonly<SendingCounts>>>

export function createSenders({ served, spaces, onLoopEvent, onSendingTrouble }: SendersParts): Senders {
  const present = new Map<string, () => Counts>()
  /** The counts of senders that have ended; the earliest end first. */
  const past = new Map<string, Counts>()

  /** A notification that waits for a key is tried repeatedly, so each subscription is reported once. */
  function troubleReporter(namespace: string): (trouble: SendingTrouble) => void {
    const sealed = new Set<string>()
    return (trouble) => {
      const isKnown = trouble.kind === 'sealed' && sealed.has(trouble.subscriptionId)
      if (trouble.kind === 'sealed') sealed.add(trouble.subscriptionId)
      if (!isKnown) onSendingTrouble?.(namespace, trouble)
    }
  }

  const work = createNamespaceWork({
    ...{ name: 'server.senders', keepMs: 0, onLoopEvent },
    find: (limit) => served.subscribedNamespaces(limit),
    begin(namespace) {
      // A separate reference: the namespace's services stay while the sender works.
      const space = spaces.enter(namespace)
      try {
        const sender = space.monitor.sender({ onTrouble: troubleReporter(namespace) })
        present.set(namespace, () => sender.counts())
        return {
          start: () => sender.start(),
          async stop(options) {
            try {
              await sender.stop(options)
            } finally {
              const counts = sum(past.get(namespace), sender.counts())
              present.delete(namespace)
              past.delete(namespace)
              past.set(namespace, counts)
              if (past.size > maxPast) past.delete(past.keys().next().value!)
              spaces.leave(space)
            }
          },
        }
      } catch (error) {
        spaces.leave(space)
        throw error
      }
    },
  })
  return {
    ...work,
    counts: () =>
      Array.from(new Set([...past.keys(), ...present.keys()]), (namespace) => ({
        namespace,
        counts: sum(past.get(namespace), present.get(namespace)?.()),
      })),
  }
}

function sum(one: Counts = {}, other: Counts = {}): Counts {
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
