import type { Box } from '../index.ts'
import { act, chance, Mishap, pass, pick, type Stage } from './actor.ts'

/**
 * Ten machines that pull images: they form a line for each, one pulls, and the others find it there. Now and then a pull
 * fails and the next waiter takes over; images go stale, and it begins again.
 */
const images = ['nginx:1.29', 'redis:8.2', 'postgres:18'] as const
const machines = Array.from({ length: 10 }, (_, at) => `machine-${at + 1}`)
const layerCount = 6

export async function playPullers(box: Box, stage: Stage): Promise<void> {
  const present = new Set<string>()
  await Promise.all([
    ...machines.map((node) => act(stage, node, [500, 6_000], () => pull(box, stage, present, node))),
    act(stage, 'clean-up', [9_000, 15_000], () => present.delete(pick([...present, images[0]]))),
    act(stage, 'crowd', [20_000, 30_000], () => guard(box, stage)),
  ])
}

async function pull(box: Box, { signal }: Stage, present: Set<string>, node: string): Promise<void> {
  const image = pick(images)
  await box.locks
    .singleFlight('pull', image, {
      ...{ node, ttlMs: 10_000, deadlineMs: 60_000, signal },
      check: () => (present.has(image) ? image : undefined),
      async run(held) {
        for (let layer = 1; layer <= layerCount; layer++) {
          await pass(signal, 200, 900)
          await held.progress({ done: layer, total: layerCount, note: `layer ${layer} of ${layerCount}` })
          if (chance(0.03)) throw new Mishap('the registry hung up')
        }
        present.add(image)
        return image
      },
    })
    .catch((error: unknown) => {
      // Only the wait queue learns of a failed pull: the next waiter has its turn.
      if (!signal.aborted && !(error instanceof Mishap)) throw error
    })
}

/** Several who would all send the same invoice: one does. */
async function guard({ once }: Box, { signal }: Stage): Promise<void> {
  const key = `invoice:${Math.floor(Date.now() / 60_000)}`
  await Promise.all(
    Array.from({ length: 5 }, () => once.run(key, () => pass(signal, 100, 500), { keepMs: '10m' })),
  )
}
