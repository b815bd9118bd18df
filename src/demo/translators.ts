import { connectNode, type NodeConnection } from '../http/client/index.ts'
import type { Box } from '../index.ts'
import { act, between, chance, Mishap, pass, pick, type Stage } from './actor.ts'

/**
 * Nodes that translate: each knows some languages and has some slots. They join, leave and die. A task goes to a node
 * that knows its language and has a free slot. No node can run a few of the tasks.
 */
const languages = ['zh', 'es', 'de', 'fr', 'ja'] as const
const names = ['brain-1', 'brain-2', 'brain-3', 'brain-4', 'brain-5', 'brain-6'] as const

export async function playTranslators(box: Box, url: string, stage: Stage): Promise<void> {
  const nodes = new Map<string, NodeConnection>()
  const join = async (nodeId: string) => {
    const tags = { language: languages.filter((_, at) => at % 3 !== names.indexOf(nodeId as 'brain-1') % 3) }
    const node = await connectNode(url, {
      ...{
        nodeId,
        services: [{ name: 'translate', slots: 2 + (names.indexOf(nodeId as 'brain-1') % 3), tags }],
      },
      labels: { zone: pick(['eu-1', 'eu-2']), gpu: chance(0.5) },
      load: () => ({ cpu: between(0.1, 0.8) }),
      async onTask({ payload }, { signal, progress }) {
        progress(50)
        await pass(signal, 200, 1_800)
        if (chance(0.04)) throw Object.assign(new Mishap('out of memory'), { retryable: true })
        return { text: `«${(payload as { text: string }).text}»` }
      },
    })
    nodes.set(nodeId, node)
  }
  for (const nodeId of names.slice(0, 4)) await join(nodeId)
  try {
    await Promise.all([
      act(stage, 'tasks', [150, 700], () =>
        box.dispatch.submit({
          service: 'translate',
          payload: {
            text: pick(['good morning', 'thank you', 'see you tomorrow']),
            tenant: pick(['red', 'blue']),
          },
          requires: [{ service: 'translate', where: { language: chance(0.02) ? 'la' : pick(languages) } }],
          deadlineMs: '1m',
        }),
      ),
      act(stage, 'fleet', [12_000, 25_000], async () => {
        const nodeId = pick(names)
        const known = nodes.get(nodeId)
        if (known === undefined) return join(nodeId)
        nodes.delete(nodeId)
        // Half of the nodes drain first; the others disconnect without notice.
        if (chance(0.5)) await known.drain()
        await known.close()
      }),
    ])
  } finally {
    await Promise.all([...nodes.values()].map((node) => node.close()))
  }
}

/**
 * Ten machines pull images: each image has a wait queue, one machine pulls it, and the others then find it. Sometimes a
 * pull fails and the next waiter continues. Images are removed regularly, so that they are pulled again.
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
      // A failed pull is no fault of the demo: the next waiter gets its turn.
      if (!signal.aborted && !(error instanceof Mishap)) throw error
    })
}

/** Five callers try to send the same invoice: one sends it. */
async function guard({ once }: Box, { signal }: Stage): Promise<void> {
  const key = `invoice:${Math.floor(Date.now() / 60_000)}`
  await Promise.all(
    Array.from({ length: 5 }, () => once.run(key, () => pass(signal, 100, 500), { keepMs: '10m' })),
  )
}
