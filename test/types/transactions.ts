/** What the types of the drivers and of `open` let a program hand in; `tsc` is the test. */
import type { DatabaseSync } from 'node:sqlite'
import type { Connection, Pool as MariadbPool, PoolConnection } from 'mysql2/promise'
import type { Client, Pool, PoolClient } from 'pg'
import type postgres from 'postgres'
import { type Box, open, type RemoteBox } from 'signalbox'
import { connectNode, createClient } from 'signalbox/client'
import type { CallerTransaction, HandlerJob, StoreTransaction } from 'signalbox/jobs'
import type { SubscriptionChannel } from 'signalbox/monitor'

interface Callers {
  readonly pg: Client
  readonly lent: PoolClient
  readonly mariadb: Connection
  readonly lentByMariadb: PoolConnection
  readonly sqlite: DatabaseSync
  readonly postgresJs: postgres.TransactionSql
  readonly ours: StoreTransaction
}

/** The transactions of ORMs are tested in test/services/libraries, each with its own type. */
export async function transactions(box: Box, job: HandlerJob, callers: Callers): Promise<void> {
  const all: readonly CallerTransaction[] = Object.values(callers)
  for (const tx of all) await box.jobs.add('mail', null, { tx })
  await job.ack({ tx: callers.lent })
  await job.nack({ tx: callers.lentByMariadb })
  await box.once.claim('order:7', { tx: callers.sqlite })
  await job.transaction((tx) => box.jobs.add('mail', null, { tx: tx.raw }))
}

export async function pools(box: Box, job: HandlerJob, pool: Pool, mariadb: MariadbPool): Promise<void> {
  // @ts-expect-error each statement of a pool may run on another connection
  await box.jobs.add('mail', null, { tx: pool })
  // @ts-expect-error also for many
  await box.jobs.addMany([{ kind: 'mail' }], { tx: mariadb })
  // @ts-expect-error and at the end of a job
  await job.ack({ tx: pool })
  // @ts-expect-error and for guards
  await box.once.claim('order:7', { tx: mariadb })
}

export async function addresses(): Promise<void> {
  const box: Box = await open(process.env.DATABASE_URL)
  const migrated: Box = await open(process.env.DATABASE_URL, { migrate: true })
  const remote: RemoteBox = await open(process.env.SIGNALBOX_URL, { token: process.env.SIGNALBOX_TOKEN })
  createClient(process.env.SIGNALBOX_URL, { token: 't' })
  await connectNode(process.env.SIGNALBOX_URL, { nodeId: 'n', services: [], onTask: () => undefined })
  await Promise.all([box, migrated, remote].map((opened) => opened.close()))
  // @ts-expect-error a store that is known to be one has no token
  await open('sqlite:signalbox.db', { token: 't' })
}

export function channels(channel: SubscriptionChannel): readonly SubscriptionChannel[] {
  if (channel.type === 'webhook') return [{ ...channel, headers: { 'x-tenant': 'a' } }]
  // @ts-expect-error only a webhook has headers
  channel.headers
  return [
    { type: 'dingtalk', url: 'https://a.example', secret: 's', isAtAll: true },
    { type: 'feishu', robots: [{ url: 'https://a.example' }], format: 'text' },
    // @ts-expect-error a format of another channel
    { type: 'wecom', url: 'https://a.example', format: 'post' },
    // @ts-expect-error Slack has no secret
    { type: 'slack', url: 'https://a.example', secret: 's' },
    // @ts-expect-error one robot, or several
    { type: 'slack', url: 'https://a.example', robots: [{ url: 'https://b.example' }] },
  ]
}
