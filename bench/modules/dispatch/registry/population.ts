/**
 * The nodes of a fleet and the demands on it, the same for every contestant: eight services on each node, with the
 * languages of one of sixteen groups and one of four kinds of graphics card, so 64 sorts of nodes. A task asks for a
 * service in a language, which four of the sorts can do.
 */
import type { Labels, ServiceOffer, Term } from '../../../../src/dispatch/index.ts'

export const serviceNames: readonly string[] = ['asr', 'nmt', 'tts', 'ocr', 'llm', 'vad', 'diar', 'rank']
export const slotsPerService = 4
const languageCount = 16
const cards = ['a10', 'l4', 'h100', 'cpu'] as const

export interface Member {
  readonly nodeId: string
  readonly language: string
  readonly services: readonly ServiceOffer[]
  readonly labels: Labels
}

export function memberOf(number: number): Member {
  const language = `l${number % languageCount}`
  return {
    nodeId: `node-${number}`,
    language,
    services: serviceNames.map((name) => ({ name, slots: slotsPerService, tags: { language: [language] } })),
    labels: { card: cards[(number >> 4) % cards.length]! },
  }
}

export interface Ask {
  /** The ask as one word. */
  readonly kind: string
  readonly service: string
  readonly language: string
  readonly requires: readonly Term[]
}

/** Every ask there is, in the order in which they come. */
export const asks: readonly Ask[] = serviceNames.flatMap((service) =>
  Array.from({ length: languageCount }, (_, number) => {
    const language = `l${number}`
    return { kind: `${service}#${language}`, service, language, requires: [{ service, where: { language } }] }
  }),
)

/** How many tasks run at a time: a few of each ask in a small fleet, one on every second node of a large one. */
export function runningIn(nodeCount: number): number {
  return Math.min(20_000, nodeCount * 2)
}
