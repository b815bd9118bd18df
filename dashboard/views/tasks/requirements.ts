import type { DispatchClient, WireFoundTask } from '../../../src/http/client/index.ts'
import type { Say } from '../../words/catalogue.ts'
import type { nodesWords } from '../../words/nodes.ts'
import type { tasksWords } from '../../words/tasks.ts'
import { describeTerm } from '../nodes/rule.ts'

export type Explanation = Awaited<ReturnType<DispatchClient['explain']>>

/**
 * Translates the server's requirements. The server lists them in a fixed order (services, rules, node states, free slots,
 * open services), so the index identifies each. Unknown ones are shown unchanged.
 */
export function requirementNames(
  { requirements }: Explanation,
  task: WireFoundTask,
  say: Say<typeof tasksWords>,
  sayNodes: Say<typeof nodesWords>,
): (text: string) => string {
  const names = new Map<string, string>()
  const own = namesOf(task, say, sayNodes)
  if (own.length === requirements.length) {
    for (const [nth, { requirement }] of requirements.entries()) names.set(requirement, own[nth]!)
  }
  return (text) => names.get(text) ?? text
}

function namesOf(
  { uses, requires }: WireFoundTask,
  say: Say<typeof tasksWords>,
  sayNodes: Say<typeof nodesWords>,
): readonly string[] {
  const slots = Object.entries(uses)
  return [
    ...slots.map(([name, count]) =>
      count === 1 ? say('reqService', { name }) : say('reqSlots', { name, count }),
    ),
    ...requires.map((term) => describeTerm(term, sayNodes)),
    say('reqConnected'),
    say('reqDraining'),
    say('reqCordoned'),
    say('reqOverloaded'),
    say('reqKept'),
    ...slots.map(([name, count]) => say('reqFree', { name, count })),
    ...slots.map(([name]) => say('reqOpen', { name })),
  ]
}

/** What would let it run, by the same reckoning as the server's own words. */
export function wakesOf(
  { nodeCount, suitableCount, readyCount, nearest }: Explanation,
  { uses }: WireFoundTask,
  nameOf: (text: string) => string,
  say: Say<typeof tasksWords>,
): readonly string[] {
  const services = Object.keys(uses).join(say('comma'))
  if (readyCount > 0) return [say('wakeTurn')]
  if (suitableCount > 0) {
    return nearest
      .slice(0, suitableCount)
      .map(({ nodeId, missing }) =>
        say('wakeNode', { node: nodeId, missing: missing.map(nameOf).join(say('comma')) }),
      )
  }
  return [say(nodeCount === 0 ? 'wakeConnects' : 'wakeChanges', { services })]
}
