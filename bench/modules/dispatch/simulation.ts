/**
 * A fleet in simulated time: nodes of eight slots that beat every 15 s, tasks that keep 70 % of the slots busy, messages
 * that take a millisecond or two each way. The same seed gives the same run. Counted is each task that reaches a node
 * whose slots are all in use at that moment; the node sends it back, and it is placed anew.
 */
import { createNumbers } from '../../../test/support/random.ts'

export const fleet = { nodes: 1_000, slots: 8, busy: 0.7, heartbeatMs: 15_000, taskMs: 10_000 } as const

/** Decides where tasks go. It learns only what messages bring. */
export interface Placer {
  /** A new task. */
  submit(task: number, now: number): void
  /** The node has ended it. */
  ended(task: number, node: number, now: number): void
  /** The node had no slot for it. */
  refused(task: number, node: number, now: number): void
  /** The node reported that it ran these, when `seen` tasks had reached it. */
  beat(node: number, tasks: readonly number[], reached: number, now: number): void
  /** When it wants to be woken, and that it was. */
  readonly wakeAt: number
  wake(now: number): void
  /** What it has placed since it was last asked. */
  takePlaced(): readonly { readonly task: number; readonly node: number }[]
}

export interface SimulationResult {
  /** Tasks that reached a full node, once or more often. */
  readonly full: number
}

type Event =
  | { readonly kind: 'come'; readonly task: number }
  | { readonly kind: 'reach' | 'end' | 'told' | 'refused'; readonly task: number; readonly node: number }
  | { readonly kind: 'beat'; readonly node: number }
  | {
      readonly kind: 'heard'
      readonly node: number
      readonly tasks: readonly number[]
      readonly reached: number
    }

export function simulate(placer: Placer, taskCount: number, seed: number): SimulationResult {
  const random = createNumbers(seed)
  const timeline = new Timeline()
  const nodes = Array.from({ length: fleet.nodes }, createNode)
  const meanGapMs = fleet.taskMs / (fleet.nodes * fleet.slots * fleet.busy)
  const exponential = (mean: number): number => -Math.log(1 - random()) * mean
  const longestMs = taskCount * meanGapMs + 100 * fleet.taskMs
  const atFull = new Set<number>()
  let open = taskCount
  for (const node of nodes.keys()) timeline.add(random() * fleet.heartbeatMs, { kind: 'beat', node })
  timeline.add(0, { kind: 'come', task: 0 })

  while (open > 0) {
    while (placer.wakeAt <= timeline.nextAt) {
      placer.wake(placer.wakeAt)
      send(timeline.now)
    }
    const event = timeline.take()
    const { now } = timeline
    if (now > longestMs)
      throw new Error(`${open} tasks had not ended after ${longestMs / 1_000} simulated seconds`)
    switch (event.kind) {
      case 'come':
        if (event.task + 1 < taskCount)
          timeline.add(now + exponential(meanGapMs), { kind: 'come', task: event.task + 1 })
        placer.submit(event.task, now)
        break
      case 'reach': {
        const node = nodes[event.node]!
        const { running } = node
        node.reached++
        if (running.size >= fleet.slots) {
          atFull.add(event.task)
          answer(now, { ...event, kind: 'refused' })
        } else {
          running.add(event.task)
          timeline.add(now + exponential(fleet.taskMs), { ...event, kind: 'end' })
        }
        break
      }
      case 'end':
        nodes[event.node]!.running.delete(event.task)
        answer(now, { ...event, kind: 'told' })
        break
      case 'told':
        open--
        placer.ended(event.task, event.node, now)
        break
      case 'refused':
        placer.refused(event.task, event.node, now)
        break
      case 'beat': {
        const { running, reached } = nodes[event.node]!
        timeline.add(now + fleet.heartbeatMs, event)
        answer(now, { kind: 'heard', node: event.node, tasks: [...running], reached })
        break
      }
      case 'heard':
        placer.beat(event.node, event.tasks, event.reached, now)
    }
    send(now)
  }
  return { full: atFull.size }

  function send(now: number): void {
    for (const placed of placer.takePlaced()) {
      const node = nodes[placed.node]!
      node.arrivesThereAt = Math.max(node.arrivesThereAt, now + latencyMs())
      timeline.add(node.arrivesThereAt, { kind: 'reach', ...placed })
    }
  }

  function answer(now: number, event: Extract<Event, { readonly node: number }>): void {
    const node = nodes[event.node]!
    node.arrivesHereAt = Math.max(node.arrivesHereAt, now + latencyMs())
    timeline.add(node.arrivesHereAt, event)
  }

  function latencyMs(): number {
    return 0.5 + random() * 1.5
  }
}

interface SimulatedNode {
  readonly running: Set<number>
  /** Tasks that have come to it so far. */
  reached: number
  /** When the last message each way arrives: a socket keeps their order. */
  arrivesThereAt: number
  arrivesHereAt: number
}

function createNode(): SimulatedNode {
  return { running: new Set<number>(), reached: 0, arrivesThereAt: 0, arrivesHereAt: 0 }
}

/** Events in the order of their time. */
class Timeline {
  readonly #heap: { readonly at: number; readonly event: Event }[] = []
  now = 0

  get nextAt(): number {
    return this.#heap[0]?.at ?? Number.POSITIVE_INFINITY
  }

  add(at: number, event: Event): void {
    const heap = this.#heap
    let place = heap.push({ at, event }) - 1
    while (place > 0) {
      const parent = (place - 1) >> 1
      if (heap[parent]!.at <= at) break
      this.#swap(place, parent)
      place = parent
    }
  }

  take(): Event {
    const heap = this.#heap
    const first = heap[0]!
    const last = heap.pop()!
    if (heap.length > 0) {
      heap[0] = last
      this.#sink()
    }
    this.now = first.at
    return first.event
  }

  #sink(): void {
    const heap = this.#heap
    for (let place = 0; ; ) {
      let least = place
      for (const child of [2 * place + 1, 2 * place + 2])
        if (child < heap.length && heap[child]!.at < heap[least]!.at) least = child
      if (least === place) return
      this.#swap(place, least)
      place = least
    }
  }

  #swap(a: number, b: number): void {
    const heap = this.#heap
    const kept = heap[a]!
    heap[a] = heap[b]!
    heap[b] = kept
  }
}
