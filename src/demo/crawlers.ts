import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Box } from '../index.ts'
import { act, chance, pick, type Stage } from './actor.ts'

/**
 * Crawlers watch courts and report changes. Several crawlers see the same change, and one notification is sent. Some
 * courts change often, so that windows, flapping and throttling suppress notifications. Messages go to a stand-in for
 * DingTalk on this machine, which sometimes fails.
 */
const states = ['free', 'booked', 'closed'] as const
const slots = ['09:00-10:00', '18:00-19:00'] as const
const crawlerCount = 4
const courtCount = 24

export async function playCrawlers(box: Box, stage: Stage): Promise<void> {
  const standIn = await openStandIn()
  try {
    const { port } = standIn.address() as AddressInfo
    const url = `http://127.0.0.1:${port}`
    const { monitor } = box
    await monitor.subscribe({
      name: 'players',
      match: { source: 'courts' },
      channel: { type: 'dingtalk', url: `${url}/robot/send?access_token=demo` },
      windowMs: '30s',
    })
    await monitor.subscribe({
      name: 'evening only',
      match: { source: 'courts', timeSlot: '18:00-19:00' },
      channel: { type: 'webhook', url: `${url}/hook`, secret: 'a-demo-secret' },
      windowMs: '2m',
      throttle: { max: 20, perMs: '1m' },
      flap: { changes: 4, withinMs: '1m' },
    })
    const courts = Array.from({ length: courtCount }, (_, at) => ({
      venueId: `court-${at + 1}`,
      state: { status: 'free' as (typeof states)[number] },
    }))
    await Promise.all([
      act(stage, 'courts', [700, 2_500], () => {
        // The first three courts change most often.
        const court = chance(0.5) ? courts[Math.floor(Math.random() * 3)]! : pick(courts)
        court.state = { status: pick(states) }
      }),
      ...Array.from({ length: crawlerCount }, (_, at) =>
        act(stage, `crawler-${at + 1}`, [1_500, 4_000], () => {
          const round = Math.floor(Date.now() / 2_000)
          const taskId = at % 2 === 0 ? `round ${round}` : `round ${round} of crawler ${at + 1}`
          const venues = courts.map(({ venueId, state }) => ({ venueId, state }))
          return monitor.report({
            taskId,
            source: 'courts',
            timeSlot: pick(slots),
            observedAt: Date.now(),
            venues,
          })
        }),
      ),
    ])
  } finally {
    standIn.closeAllConnections()
    standIn.close()
  }
}

/** Opens a server that answers like DingTalk. One of twenty answers is an overload. */
async function openStandIn(): Promise<Server> {
  const server = createServer((request, response) => {
    request.resume()
    request.once('end', () => {
      const isAway = chance(0.05)
      response.writeHead(isAway ? 503 : 200, { 'content-type': 'application/json' })
      response.end(isAway ? '{}' : '{"errcode":0,"errmsg":"ok"}')
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  return server
}
