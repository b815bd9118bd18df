import { connectNode, type NodeConnection } from '../http/client/index.ts'
import type { Box } from '../index.ts'
import { act, between, chance, Mishap, pass, pick, type Stage } from './actor.ts'

/**
 * Nodes that translate: each knows some languages and has some slots. They join, leave and die; a task goes to
 * a node that can do it and has a free slot. Now and then there is one that no node can do.
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
        // Half of them say good-bye, the others are simply gone.
        if (chance(0.5)) await known.drain()
        await known.close()
      }),
    ])
  } finally {
    await Promise.all([...nodes.values()].map((node) => node.close()))
  }
}
