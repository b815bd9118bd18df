import type { ListedToken } from '../../access/index.ts'
import { isSignalboxError } from '../../core/errors.ts'
import { version } from '../../core/version.ts'
import type { Client, WireOverview } from '../../http/client/index.ts'
import { readAll } from '../commands/cli-command.ts'
import {
  about,
  type Finding,
  isLoopback,
  judgeDead,
  judgeQueues,
  judgeServedSecrets,
  judgeTokens,
  judgeUnreadable,
  reasonOf,
} from './judging.ts'
import { type ClockReading, judgeClocks, readClock } from './probes.ts'
import { judgeWarnings } from './store.ts'

/** Checks a running server; its tokens only with an admin token. */
export async function examineServer(
  url: string,
  options: { readonly token?: string | undefined; readonly namespace?: string | undefined },
): Promise<readonly Finding[]> {
  const { createClient } = await import('../../http/client/index.ts')
  using client = createClient(url, options)
  const findings = [...judgeAddress(client.url, options.token !== undefined)]
  try {
    findings.push(...(await examine(client)))
  } catch (error) {
    const advice = isSignalboxError(error, 'unauthorized')
      ? 'Set SIGNALBOX_TOKEN to a valid token.'
      : isSignalboxError(error, 'forbidden')
        ? 'Use a token for this namespace, or another --namespace.'
        : 'Start the server, or correct its address (--url, SIGNALBOX_URL).'
    findings.push(about('server', client.url).problem(reasonOf(error), advice))
  }
  return findings
}

function judgeAddress(url: string, hasToken: boolean): readonly Finding[] {
  const { protocol, hostname } = new URL(url)
  if (protocol === 'https:' || isLoopback(hostname)) return []
  return [
    about('tls', url).warning(
      `The connection is plain HTTP: ${hasToken ? 'the token and ' : ''}all data can be read on the network.`,
      'Use https://: give the server a certificate (--tls-cert), or put a proxy with TLS in front.',
    ),
  ]
}

async function examine(client: Client): Promise<readonly Finding[]> {
  const me = await client.overview.me()
  let overview: WireOverview | undefined
  const clock: ClockReading = await readClock(client.url, async () => {
    overview = await client.overview.get()
    return overview.at
  })
  const { readiness, problems, queues, at } = overview!
  return [
    judgeVersion(client.url, me.server.version),
    ...judgeReadiness(client.url, readiness),
    ...judgeWarnings(me.server.engine, me.server.warnings),
    ...(me.scope === 'admin' ? judgeTokens(await listTokens(client, at), at) : []),
    ...judgeQueues(queues, at),
    ...judgeServedSecrets(
      client.url,
      (await client.monitor.subscriptions()).map(({ channel }) => channel),
    ),
    ...problems.flatMap(judgeProblem),
    ...judgeClocks([clock]),
  ]
}

function judgeVersion(url: string, serverVersion: string): Finding {
  const { ok, warning } = about('version', url)
  if (serverVersion === version) return ok(`The server and this command are both ${version}.`)
  return warning(
    `The server is ${serverVersion}, and this command is ${version}.`,
    'Upgrade the older of the two.',
  )
}

function judgeReadiness(url: string, { checks }: WireOverview['readiness']): readonly Finding[] {
  const failed = checks.filter((check) => !check.ok)
  if (failed.length === 0) return [about('ready', url).ok(`It is ready: ${checks.length} checks pass.`)]
  return failed.map(({ name, detail }) =>
    about('ready', name).problem(
      `This check of the server fails${detail === undefined ? '' : `: ${detail}`}.`,
      'See the log of the server. A restart helps when a loop makes no progress.',
    ),
  )
}

/** Judges a problem that the server reports, if no other check covers it. */
export function judgeProblem({
  kind,
  subject,
  count,
  detail,
}: Pick<WireOverview['problems'][number], 'kind' | 'subject' | 'count' | 'detail'>): readonly Finding[] {
  if (kind === 'no_nodes') {
    const text = `${count} tasks wait or run, and no node is connected.`
    return [about('nodes', subject).warning(text, 'Start nodes, or see `signalbox nodes ls`.')]
  }
  if (kind === 'dead_notifications') return [judgeDead(subject, count)]
  if (kind === 'channel_sealed') return [judgeUnreadable(subject, detail)]
  return []
}

/** A server does not send `live`, but the instants. */
async function listTokens(client: Client, now: number): Promise<readonly ListedToken[]> {
  const all = await readAll((cursor) => client.tokens.list({ limit: 500, cursor }))
  return all.map((token) => {
    const { revokedAt, expiresAt } = token
    return { ...token, live: revokedAt === null && (expiresAt === null || expiresAt > now) }
  })
}
