import { relative } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * Test files by what they do to the machine: campaigns start processes by the dozen, tests with services mostly wait, and
 * all others compute.
 */
const lanes: readonly RegExp[] = [/^test\/crashes\//, /^test\/(conformance|services)\//, /./]

/** Small files that take long. Vitest begins with the large ones, and these would be waited for at the end. */
const longOnes =
  /^test\/(conformance\/(backends-|.*walk\.)|docs\/pages|crashes\/(languages|migrations|jobs\/(kills|poison))|cli\/(serve|workers)|http\/server\/(fuzz|faults|security\/slow)|services\/faults|dispatch\/(cluster|service|connections\/(wire|connect-node))|monitor\/sender)/

/** Orders files so that those that run side by side are of different kinds, and no long one is begun last. */
export default class Dealing extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const { root } = this.ctx.config
    const sorted = await super.sort(files)
    const pathOf = ({ moduleId }: TestSpecification) => relative(root, moduleId).replaceAll('\\', '/')
    return deal(sorted, pathOf, ({ project }) => !project.config.isolate)
  }
}

/**
 * Deals items from the lanes of their paths, so that all lanes come to their end together. Those that share processes
 * come last: a process goes on only with a file that comes right after its own, and they are small enough to fill the end.
 */
export function deal<Item>(
  items: readonly Item[],
  pathOf: (item: Item) => string,
  sharesProcess: (item: Item) => boolean = () => false,
): Item[] {
  const longFirst = (lane: readonly Item[]) => {
    const isLong = (item: Item) => longOnes.test(pathOf(item))
    return [...lane.filter(isLong), ...lane.filter((item) => !isLong(item))]
  }
  const laneOf = (item: Item) => lanes.findIndex((lane) => lane.test(pathOf(item)))
  const byLane = [
    ...Map.groupBy(
      items.filter((item) => !sharesProcess(item)),
      laneOf,
    ).values(),
  ]
  const dealt = byLane
    .flatMap((lane) => longFirst(lane).map((item, index) => ({ item, share: (index + 0.5) / lane.length })))
    .sort((a, b) => a.share - b.share)
    .map(({ item }) => item)
  return [...dealt, ...longFirst(items.filter(sharesProcess))]
}
