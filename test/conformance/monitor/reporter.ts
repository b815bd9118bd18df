/**
 * One of several crawlers, as a separate process: it reports each round's result, once as its own task and once as one
 * that all crawlers share, and prints the answers.
 *
 *     node reporter.ts URL NAMESPACE NAME ROUNDS VENUES START
 */
import { open } from '../../../src/index.ts'

const [url, namespace, name, rounds, venues, start] = process.argv.slice(2)
const answers: { round: number; shared: string; notified: number; failed: number }[] = []

await using box = await open(url!, { namespace: namespace! })
for (let round = 1; round <= Number(rounds); round++) {
  const saw = (prefix: string) =>
    Array.from({ length: Number(venues) }, (_, index) => ({
      venueId: `${prefix}-${index}`,
      state: { round },
    }))
  const report = { source: 'gym', timeSlot: '18:00-19:00', observedAt: Number(start) + round }
  const own = await box.monitor.report({ ...report, taskId: `${name} ${round}`, venues: saw('own') })
  const shared = await box.monitor.report({ ...report, taskId: `round ${round}`, venues: saw('shared') })
  answers.push({
    round,
    shared: shared.status,
    notified: own.notified + shared.notified,
    failed: own.failed.length + shared.failed.length,
  })
}
process.stdout.write(JSON.stringify(answers))
