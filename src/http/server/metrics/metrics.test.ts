import assert from 'node:assert/strict'
import { test } from 'vitest'
import { SignalboxError } from '../../../core/errors.ts'
import { createFakeClock } from '../../../core/fake-clock.ts'
import { version } from '../../../core/version.ts'
import { createSeriesRecorder } from '../../../fleet/index.ts'
import { SeriesCell, seriesBounds } from '../../../fleet/rules/index.ts'
import type { ClaimedRecord, QueueStats } from '../../../jobs/index.ts'
import { OnceTally } from '../../../once/index.ts'
import { MemorySeries } from '../../../storage/memory/series.ts'
import { routes } from '../../contract/index.ts'
import { metricsType } from './metric-registry.ts'
import { createMetrics, type MetricsParts, type MetricsSpace } from './metrics.ts'
import { scrapeLimits } from './queue-counts.ts'

function queue(name: string, more: Partial<QueueStats> = {}): QueueStats {
  const none = { scheduled: 0, ready: 0, waiting: 0, running: 0, dead: 0, approximate: false }
  return { queue: name, paused: false, limits: null, ...none, oldestReadyAt: null, ...more }
}

function space(
  namespace: string,
  stats: () => Promise<readonly QueueStats[]> | never,
  more: Partial<MetricsSpace['stores']> = {},
): MetricsSpace {
  return { namespace, stores: { jobs: { stats }, ...more }, tally: new OnceTally() }
}

function stage(parts: Partial<MetricsParts> = {}) {
  const clock = createFakeClock()
  const spaces: MetricsSpace[] = []
  const metrics = createMetrics({
    routes,
    spaces: () => spaces,
    sendings: () => [],
    storeUp: async () => true,
    loops: () => [],
    logDropped: () => 0,
    clock,
    ...parts,
  })
  const own = space('default', async () => [])
  const scrape = async (everyNamespace = true, who = own) =>
    parse(await metrics.text({ space: who, everyNamespace }))
  return { clock, spaces, metrics, scrape }
}

/** Reads the text as strictly as Prometheus does: every line has its form, every family its head, no series twice. */
function parse(text: string): ReadonlyMap<string, number> {
  const values = new Map<string, number>()
  const types = new Map<string, string>()
  for (const line of text.split('\n')) {
    if (line === '') continue
    const head = /^# (HELP|TYPE) ([a-z_:][a-z0-9_:]*) (.+)$/i.exec(line)
    if (head !== null) {
      if (head[1] === 'TYPE') {
        assert.ok(!types.has(head[2]!), `${head[2]} is described once`)
        types.set(head[2]!, head[3]!)
      }
      continue
    }
    const sample =
      /^([a-z_:][a-z0-9_:]*)(\{(?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*\})? (NaN|[+-]?Inf|-?[0-9.e+-]+)$/i.exec(
        line,
      )
    assert.ok(sample, `"${line}" is a sample`)
    const family = sample[1]!.replace(/_(bucket|sum|count)$/, '')
    assert.ok(types.has(sample[1]!) || types.get(family) === 'histogram', `${sample[1]} has a type`)
    // prom-client prints the bound of a bucket first.
    const labels = (sample[2] ?? '').replace(/^\{(le="[^"]*"),(.*)\}$/, '{$2,$1}')
    const series = sample[1]! + labels
    assert.ok(!values.has(series), `${series} is there once`)
    values.set(series, Number(sample[3]))
  }
  return values
}

function claimed(queue: string, more: Pick<ClaimedRecord, 'runAt' | 'startedAt'>): ClaimedRecord {
  return { id: 'a', queue, kind: 'welcome', attempt: 1, meta: null, ...more } as ClaimedRecord
}

test('a scrape is text that Prometheus reads, and names the version of the server', async () => {
  const { scrape } = stage()
  const values = await scrape()
  assert.match(metricsType, /^text\/plain; version=0\.0\.4/)
  assert.equal(values.get(`signalbox_info{version="${version}"}`), 1)
  assert.equal(values.get('signalbox_store_up'), 1)
  assert.equal(values.get('signalbox_scrape_incomplete'), 0)
  for (const name of ['process_resident_memory_bytes', 'nodejs_eventloop_lag_p99_seconds'])
    assert.ok(values.has(name), name)
})

test('requests are counted by route and status, and timed', async () => {
  const { metrics, scrape } = stage()
  for (let i = 0; i < 4; i++) metrics.requestBegan()
  metrics.request('getJob', 200, 0.002)
  metrics.request('getJob', 404, 0.2)
  metrics.request(undefined, 404, 0.001)
  const values = await scrape()
  assert.equal(values.get('signalbox_http_requests_total{route="getJob",status="200"}'), 1)
  assert.equal(values.get('signalbox_http_requests_total{route="getJob",status="404"}'), 1)
  assert.equal(values.get('signalbox_http_requests_total{route="none",status="404"}'), 1)
  assert.equal(values.get('signalbox_http_requests_in_flight'), 1)
  const seconds = (suffix: string) => values.get(`signalbox_http_request_seconds_${suffix}`)
  assert.equal(seconds('bucket{route="getJob",le="0.001"}'), 0)
  assert.equal(seconds('bucket{route="getJob",le="0.0025"}'), 1)
  assert.equal(seconds('bucket{route="getJob",le="0.25"}'), 2)
  assert.equal(seconds('bucket{route="getJob",le="+Inf"}'), 2)
  assert.equal(seconds('count{route="getJob"}'), 2)
  assert.ok(Math.abs(seconds('sum{route="getJob"}')! - 0.202) < 1e-9)
  assert.equal(seconds('bucket{route="none",le="0.001"}'), 1, 'a bound belongs to its bucket')
  assert.ok(![...values.keys()].some((series) => series.includes('ackJob')), 'no line for what never was')
})

test('streams, waiting claims and store errors are counted', async () => {
  const { metrics, scrape } = stage({
    logDropped: () => 7,
    loops: () => [{ name: 'upkeep', healthy: false, restarts: 2 }],
  })
  for (let i = 0; i < 3; i++) metrics.streamOpened()
  metrics.streamClosed('ended')
  metrics.streamClosed('dropped')
  for (let i = 0; i < 2; i++) metrics.claimWaits()
  metrics.claimWaited()
  metrics.storeFailed('store_busy')
  metrics.storeFailed('store_busy')
  metrics.auditFailed()
  const values = await scrape()
  for (const [series, value] of [
    ['signalbox_streams_open', 1],
    ['signalbox_streams_total', 3],
    ['signalbox_streams_dropped_total', 1],
    ['signalbox_claims_waiting', 1],
    ['signalbox_store_errors_total{code="store_busy"}', 2],
    ['signalbox_loop_healthy{loop="upkeep"}', 0],
    ['signalbox_loop_restarts_total{loop="upkeep"}', 2],
    ['signalbox_log_dropped_total', 7],
    ['signalbox_audit_failed_total', 1],
  ] as const) {
    assert.equal(values.get(series), value, series)
  }
})

test('metrics show the counts of this server and those of the fleet together', async () => {
  const store = new MemorySeries(() => 0)
  const activity = createSeriesRecorder({ store })
  const { spaces, scrape } = stage()
  spaces.push({ ...space('default', async () => [], { series: store }), activity })
  activity.started(claimed('mail', { runAt: 9_000, startedAt: 8_000 }))
  activity.started(claimed('mail', { runAt: 9_000, startedAt: 9_250 }))
  activity.ended({ queue: 'mail', kind: 'welcome' }, 'completed', 2_000)
  activity.ended({ queue: 'mail', kind: 'welcome' }, 'retried', 6_000)
  activity.ended({ queue: 'mail', kind: 'welcome' }, 'dead', null)
  activity.ended({ queue: 'mail', kind: 'welcome' }, 'snoozed', 1)
  const other = new SeriesCell()
  other.completed = 7
  await store.write('another process', [
    { bucketAt: 0, queue: 'mail', kind: 'welcome', ...other.toValues() },
    { bucketAt: 0, queue: '', kind: '', ...other.toValues() },
  ])
  const values = await scrape(true, spaces[0])
  const of = (source: string) => `source="${source}",namespace="default",queue="mail"`
  for (const [outcome, own, fleet] of [
    ['completed', 1, 7],
    ['failed', 1, 0],
    ['dead', 1, 0],
    ['cancelled', 0, 0],
  ] as const) {
    const series = (source: string) =>
      `signalbox_jobs_total{${of(source)},name="welcome",outcome="${outcome}"}`
    assert.equal(values.get(series('process')), own, outcome)
    assert.equal(values.get(series('fleet')), fleet, outcome)
  }
  const rest = 'source="fleet",namespace="default",queue="other",name="other",outcome="completed"'
  assert.equal(values.get(`signalbox_jobs_total{${rest}}`), 7)
  const waits = `{${of('process')},cause="queue"`
  assert.equal(values.get(`signalbox_job_wait_seconds_bucket${waits},le="0.5"}`), 2)
  assert.equal(values.get(`signalbox_job_wait_seconds_bucket${waits},le="0.1"}`), 1)
  assert.equal(values.get(`signalbox_job_wait_seconds_sum${waits}}`), 0.25, 'no wait is negative')
  assert.equal(values.get(`signalbox_job_run_seconds_sum{${of('process')}}`), 8)
  assert.equal(values.get(`signalbox_jobs_started_total{${of('process')},name="welcome"}`), 2)
})

test('the metrics stay small, however many names users choose', async () => {
  const store = new MemorySeries(() => 0)
  const activity = createSeriesRecorder({ store })
  const { spaces, scrape } = stage()
  spaces.push({ ...space('default', async () => [], { series: store }), activity })
  const many = seriesBounds.keys + 50
  for (let i = 0; i < many; i++) activity.ended({ queue: `q${i}`, kind: 'x' }, 'completed', 5)
  const values = await scrape(true, spaces[0])
  const count = (pattern: RegExp) => [...values.keys()].filter((series) => pattern.test(series)).length
  assert.equal(count(/^signalbox_jobs_total.*completed/), seriesBounds.keys + 1)
  assert.equal(count(/^signalbox_job_run_seconds_count/), 101)
  const rest = 'source="process",namespace="default",queue="other",name="other",outcome="completed"'
  assert.equal(values.get(`signalbox_jobs_total{${rest}}`), 50)
  const times = 'signalbox_job_run_seconds_count{source="process",namespace="other",queue="other"}'
  // The row of the store’s own bound is one of the hundred.
  assert.equal(values.get(times), many - 50 - 99)
})

test('the queues are shown as the store has them, for every namespace in use', async () => {
  const { spaces, scrape } = stage()
  spaces.push(
    space('default', async () => [
      queue('mail', { ready: 3, dead: 1, oldestReadyAt: Date.now() - 5_000 }),
      queue('later', { scheduled: 2, paused: true, oldestReadyAt: Date.now() + 60_000 }),
    ]),
    space('shop "1"\\', async () => [queue('mail', { running: 4 })]),
  )
  const values = await scrape(true, spaces[0])
  const of = (name: string) => `namespace="default",queue="${name}"`
  assert.equal(values.get(`signalbox_queue_jobs{${of('mail')},state="ready"}`), 3)
  assert.equal(values.get(`signalbox_queue_jobs{${of('mail')},state="dead"}`), 1)
  const waits = values.get(`signalbox_queue_oldest_ready_seconds{${of('mail')}}`)!
  assert.ok(waits >= 5 && waits < 30)
  assert.equal(values.get(`signalbox_queue_oldest_ready_seconds{${of('later')}}`), 0, 'never below 0')
  assert.equal(values.get(`signalbox_queue_paused{${of('later')}}`), 1)
  const other = String.raw`signalbox_queue_jobs{namespace="shop \"1\"\\",queue="mail",state="running"}`
  assert.equal(values.get(other), 4)
})

test('a caller of one namespace sees nothing of the others', async () => {
  const { metrics, spaces, scrape } = stage()
  const mine = space('mine', async () => [queue('my-queue', { ready: 1 })])
  spaces.push(
    mine,
    space('theirs', async () => [queue('their-queue', { ready: 1 })]),
  )
  metrics.taskPlaced('theirs', 1)
  metrics.taskPlaced('mine', 1)
  const seen = [...(await scrape(false, mine)).keys()].join('\n')
  assert.match(seen, /my-queue/)
  assert.doesNotMatch(seen, /theirs|their-queue/)
  assert.match([...(await scrape(true, mine)).keys()].join('\n'), /their-queue/)
})

test('a broken store makes a scrape shorter, not an error', async () => {
  const { metrics, spaces, scrape } = stage({ storeUp: async () => false })
  metrics.request('livez', 200, 0.001)
  spaces.push(
    space('good', async () => [queue('mail', { ready: 1 })]),
    space('bad', async () =>
      Promise.reject(new SignalboxError('store_unavailable', 'postgres://u:hunter2@h')),
    ),
    space('worse', () => {
      throw new Error('hunter2')
    }),
  )
  const values = await scrape()
  assert.equal(values.get('signalbox_store_up'), 0)
  assert.equal(values.get('signalbox_scrape_incomplete'), 1)
  assert.equal(values.get('signalbox_queue_jobs{namespace="good",queue="mail",state="ready"}'), 1)
  assert.equal(values.get('signalbox_http_requests_total{route="livez",status="200"}'), 1)
  assert.doesNotMatch([...values.keys()].join('\n'), /hunter2/)
})

test('a hanging store delays a scrape only up to its deadline, and is asked once', async () => {
  const { spaces, scrape } = stage()
  let asked = 0
  spaces.push(
    space('hangs', () => {
      asked++
      return new Promise(() => {})
    }),
  )
  const scrapes = [scrape(), scrape(), scrape()]
  for (const values of await Promise.all(scrapes)) {
    assert.equal(values.get('signalbox_store_up'), 0)
    assert.equal(values.get('signalbox_scrape_incomplete'), 1)
  }
  assert.equal(asked, 1)
})

test('queues beyond the limit are added up', async () => {
  const { spaces, scrape } = stage()
  const many = Array.from({ length: scrapeLimits.queues + 20 }, (_, i) =>
    queue(`q${String(i).padStart(4, '0')}`, { ready: 1, oldestReadyAt: Date.now() - 1_000 * i }),
  )
  spaces.push(space('default', async () => many))
  const values = await scrape(true, spaces[0])
  assert.equal(values.get('signalbox_queue_jobs{namespace="other",queue="other",state="ready"}'), 20)
  const oldest = values.get('signalbox_queue_oldest_ready_seconds{namespace="other",queue="other"}')!
  assert.ok(oldest >= scrapeLimits.queues + 19)
  assert.equal(values.get('signalbox_scrape_incomplete'), 1)
})

test('counting a request costs less than five microseconds', () => {
  const { metrics } = stage()
  const rounds = 200_000
  let bestNs = Number.POSITIVE_INFINITY
  // The best of a few: a neighbour on the same processor is none of its doing.
  for (let i = 0; i < 7; i++) {
    const begun = performance.now()
    for (let n = 0; n < rounds; n++) {
      metrics.requestBegan()
      metrics.request('ackJob', 200, 0.003)
    }
    bestNs = Math.min(bestNs, ((performance.now() - begun) * 1e6) / rounds)
  }
  assert.ok(bestNs < 5_000, `${bestNs} ns`)
})
