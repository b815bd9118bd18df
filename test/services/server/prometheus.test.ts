/**
 * Prometheus's own tool reads a server's metrics and runs the alert rules of docs/production.md. Each alert fires in
 * its own case and in no other.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'vitest'
import { createClient } from '../../../src/http/client/index.ts'
import { readSource } from '../../house/sources.ts'
import { serving } from '../../http/server/stage.ts'
import { runPromtool } from '../../support/services/promtool.ts'

/** Counters with the names of `GET /v1/once/stats` instead of those that Prometheus advises. */
const namedElsewhere =
  /^signalbox_(lock_(acquired|rejected)_count|(duplicate|unique)_events|notification_dedup) /

test('promtool accepts the metrics of a server', async () => {
  await using stage = await serving()
  const text = await scrape(stage.url)
  const { output } = await runPromtool(['check', 'metrics'], text)
  const problems = output.split('\n').filter((line) => line !== '' && !namedElsewhere.test(line))
  // Metrics of prom-client about the process itself.
  assert.deepEqual(
    problems.filter((line) => !/^(nodejs|process)_/.test(line)),
    [],
  )
  const wrong = await runPromtool(['check', 'metrics'], 'signalbox_jobs_total{queue="a} 1\n')
  assert.notEqual(wrong.code, 0, 'promtool reads what it is given')
})

/** For each alert: the series in which it fires, its labels, its delay, and a series that must not matter. */
const cases: Readonly<Record<string, Case>> = {
  SignalboxStoreDown: { series: { signalbox_store_up: '0x60' } },
  SignalboxStoreErrors: {
    series: { 'signalbox_store_errors_total{code="store_busy"}': '0+5x60' },
    labels: { code: 'store_busy' },
  },
  SignalboxLoopStandsStill: {
    series: { 'signalbox_loop_healthy{loop="server.leases"}': '0x60' },
    labels: { loop: 'server.leases' },
  },
  SignalboxQueueBehind: {
    // Two servers show the same queue.
    series: {
      'signalbox_queue_oldest_ready_seconds{instance="a",namespace="default",queue="mail"}': '0+30x60',
      'signalbox_queue_oldest_ready_seconds{instance="b",namespace="default",queue="mail"}': '0+30x60',
      'signalbox_queue_oldest_ready_seconds{instance="b",namespace="default",queue="idle"}': '0x60',
    },
    labels: { namespace: 'default', queue: 'mail' },
  },
  SignalboxJobsDie: {
    series: {
      [`signalbox_jobs_total{${job('fleet', 'a')},outcome="dead"}`]: '0x20 1x40',
      [`signalbox_jobs_total{${job('fleet', 'b')},outcome="dead"}`]: '0x20 1x40',
      // A server that has just started, and one that served no request.
      [`signalbox_jobs_total{${job('process', 'b')},outcome="dead"}`]: '5x10 0x50',
      [`signalbox_jobs_total{${job('fleet', 'b', 'other')},outcome="failed"}`]: '0+9x60',
    },
    labels: { namespace: 'default', queue: 'mail' },
    at: '25m',
  },
  SignalboxDeadJobs: {
    series: { 'signalbox_queue_jobs{namespace="default",queue="mail",state="dead"}': '1x200' },
    labels: { namespace: 'default', queue: 'mail' },
    at: '2h',
  },
  SignalboxPausedAndFilling: {
    series: {
      'signalbox_queue_paused{namespace="default",queue="mail"}': '1x60',
      'signalbox_queue_jobs{namespace="default",queue="mail",state="ready"}': '3x60',
      'signalbox_queue_paused{namespace="default",queue="empty"}': '1x60',
      'signalbox_queue_jobs{namespace="default",queue="empty",state="ready"}': '0x60',
    },
    labels: { namespace: 'default', queue: 'mail' },
    at: '45m',
  },
  SignalboxGuardsDegraded: {
    series: { 'signalbox_once_degraded_total{namespace="default",policy="open"}': '0+1x60' },
    labels: { namespace: 'default', policy: 'open' },
  },
  SignalboxLockHoldersDie: {
    series: { 'signalbox_lock_expired_total{namespace="default",operation="deploy"}': '0+1x60' },
    labels: { namespace: 'default', operation: 'deploy' },
  },
  SignalboxNotificationsDie: {
    series: {
      'signalbox_notifications_total{namespace="default",channel="webhook",outcome="dead"}': '0+1x60',
    },
    labels: { namespace: 'default', channel: 'webhook' },
  },
  SignalboxChannelKeyMissing: {
    series: { 'signalbox_subscriptions_unreadable{namespace="default"}': '1x60' },
    labels: { namespace: 'default' },
  },
  SignalboxRequestsFail: {
    series: { 'signalbox_http_requests_total{route="addJobs",status="503"}': '0+120x60' },
  },
  SignalboxReadersTooSlow: { series: { signalbox_streams_dropped_total: '0+2x60' } },
  SignalboxAuditFails: { series: { signalbox_audit_failed_total: '0+1x60' } },
  SignalboxEventLoopLags: {
    series: { nodejs_eventloop_lag_p99_seconds: '0.5x60' },
  },
  SignalboxScrapeIncomplete: {
    series: { signalbox_scrape_incomplete: '1x60' },
  },
}

interface Case {
  /** Values in Prometheus's own notation, one a minute. */
  readonly series: Readonly<Record<string, string>>
  readonly labels?: Readonly<Record<string, string>>
  /** @default half an hour after the start */
  readonly at?: string
}

function job(source: string, instance: string, name = 'welcome'): string {
  return `source="${source}",instance="${instance}",namespace="default",queue="mail",name="${name}"`
}

test('each documented alert fires in its case, on series that a server has', async () => {
  const rules = await documentedRules()
  const alerts = [...rules.matchAll(/- alert: (\w+)/g)].map(([, name]) => name!)
  assert.deepEqual(Object.keys(cases).sort(), alerts.toSorted(), 'each alert has a case')
  const folder = await mkdtemp(join(tmpdir(), 'signalbox-rules-'))
  try {
    await writeFile(join(folder, 'rules.yml'), rules)
    const checked = await runPromtool(['check', 'rules', join(folder, 'rules.yml')])
    assert.equal(checked.code, 0, checked.output)
    const firing = join(folder, 'firing.yml')
    await writeFile(firing, testsOf(Object.entries(cases)))
    const tested = await runPromtool(['test', 'rules', firing])
    assert.equal(tested.code, 0, tested.output)
    // A test that cannot fail would accept any rules.
    await writeFile(join(folder, 'rules.yml'), rules.replace('outcome="dead"', 'outcome="lost"'))
    const broken = await runPromtool(['test', 'rules', firing])
    assert.notEqual(broken.code, 0)
  } finally {
    await rm(folder, { recursive: true })
  }
  await using stage = await serving()
  const text = await scrape(stage.url)
  for (const { series } of Object.values(cases)) {
    for (const name of Object.keys(series).map((one) => one.split('{')[0]!))
      assert.ok(text.includes(`# TYPE ${name} `), `${name} is in the answer`)
  }
})

async function documentedRules(): Promise<string> {
  const page = await readSource('docs/production.md')
  const [, block] = /```yaml\n(groups:\n[\s\S]*?)```/.exec(page) ?? []
  assert.ok(block)
  return block
}

/** JSON is YAML. */
function testsOf(all: readonly (readonly [string, Case])[]): string {
  return JSON.stringify({
    rule_files: ['rules.yml'],
    evaluation_interval: '1m',
    tests: all.map(([alertname, { series, labels = {}, at = '30m' }]) => {
      return {
        interval: '1m',
        input_series: Object.entries(series).map(([one, values]) => ({ series: one, values })),
        alert_rule_test: [{ eval_time: at, alertname, exp_alerts: [{ exp_labels: labels }] }],
      }
    }),
  })
}

async function scrape(url: string): Promise<string> {
  using client = createClient(url)
  await client.jobs.add('welcome', {}, { queue: 'mail' })
  const [job] = await client.jobs.claim({ queues: ['mail'] })
  await client.jobs.ack(job!)
  const response = await fetch(`${url}/metrics`)
  assert.equal(response.status, 200)
  return await response.text()
}
