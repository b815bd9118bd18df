import { relative } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * Test files by what they do to the machine: campaigns start processes by the dozen, tests with services mostly wait, and
 * all others compute.
 */
const lanes: readonly RegExp[] = [/^test\/crashes\//, /^test\/(conformance|services)\//, /./]

/** Small files that take long. Vitest begins with the large ones, and these would be waited for at the end. */
const longOnes =
  /^test\/(conformance\/backends\.|conformance\/.*walk\.|docs\/pages|crashes\/(languages|migrations|kills|poison)|cli\/(serve|workers)|server\/(fuzz|security\/slow)|server\/openapi)/

/** Orders files so that those that run side by side are of different kinds, and no long one is begun last. */
export default class Dealing extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const { root } = this.ctx.config
    const sorted = await super.sort(files)
    return deal(sorted, ({ moduleId }) => relative(root, moduleId).replaceAll('\\', '/'))
  }
}

/** Deals items from the lanes of their paths, so that all lanes come to their end together. */
export function deal<Item>(items: readonly Item[], pathOf: (item: Item) => string): Item[] {
  const laneOf = (item: Item) => lanes.findIndex((lane) => lane.test(pathOf(item)))
  const byLane = [...Map.groupBy(items, laneOf).values()]
  return byLane
    .flatMap((lane) => {
      const isLong = (item: Item) => longOnes.test(pathOf(item))
      const longFirst = [...lane.filter(isLong), ...lane.filter((item) => !isLong(item))]
      return longFirst.map((item, index) => ({ item, share: (index + 0.5) / lane.length }))
    })
    .sort((a, b) => a.share - b.share)
    .map(({ item }) => item)
}
