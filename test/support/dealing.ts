import { relative } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * Test files by their use of the machine: campaigns start dozens of processes, tests with services mostly wait, and all
 * others compute.
 */
const lanes: readonly RegExp[] = [/^test\/crashes\//, /^test\/(conformance|services)\//, /./]

/**
 * Path prefixes of files that take ten seconds and more; of those that share processes, five and more, because they end
 * the run. Vitest starts the largest files first, and most of these are small.
 */
export const longOnes: readonly string[] = `
  src/http/client/stream src/http/server/lingering-close src/jobs/worker/worker.
  src/storage/sqlite/writing/writer-thread.
  test/cli/lock test/cli/monitor test/cli/serve test/cli/workers
  test/conformance/backends- test/conformance/guards-walk test/conformance/locks-walk test/conformance/walk
  test/crashes/jobs/kills test/crashes/jobs/poison test/crashes/languages/ test/crashes/migrations
  test/dispatch/cluster/settings test/dispatch/cluster/stories test/dispatch/service/contention
  test/dispatch/service/stop
  test/docs/pages
  test/http/server/connections/connection-order test/http/server/connections/readiness
  test/http/server/connections/streams test/http/server/connections/token-flood test/http/server/connections/upgrade
  test/http/server/faults/ test/http/server/fuzz/
  test/http/server/handlers/monitor-problems test/http/server/handlers/monitor-sending
  test/http/server/handlers/overview test/http/server/handlers/workers
  test/http/server/security/injection test/http/server/security/slow-clients
  test/locks/holding
  test/services/copy/directions test/services/dispatch/ test/services/faults/ test/services/fleet/series
  test/services/injection test/services/jobs/dependencies test/services/jobs/error-groups test/services/jobs/events
  test/services/jobs/finishing test/services/jobs/idle test/services/jobs/membership test/services/jobs/postgres
  test/services/jobs/remote test/services/jobs/search test/services/jobs/waiting test/services/jobs/waking
  test/services/jobs/working test/services/locks/sql test/services/locks/stories
  test/services/monitor-secrets test/services/server/alert test/services/server/scaling
  test/services/server/token-waits
  test/work-queue/hooks`
  .trim()
  .split(/\s+/)

/** Orders files so that files of different kinds run side by side, and no slow file starts last. */
export default class Dealing extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const { root } = this.ctx.config
    const sorted = await super.sort(files)
    const pathOf = ({ moduleId }: TestSpecification) => relative(root, moduleId).replaceAll('\\', '/')
    return deal(sorted, pathOf, ({ project }) => !project.config.isolate)
  }
}

/**
 * Deals items from the lanes of their paths, so that all lanes end together. Files that share processes come last: a
 * process continues only with a file right after its own, and these files are small enough to fill the end.
 */
export function deal<Item>(
  items: readonly Item[],
  pathOf: (item: Item) => string,
  sharesProcess: (item: Item) => boolean = () => false,
): Item[] {
  const longFirst = (lane: readonly Item[]) => {
    const isLong = (item: Item) => longOnes.some((beginning) => pathOf(item).startsWith(beginning))
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
