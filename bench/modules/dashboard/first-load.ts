/** What a browser must load of script before the overview stands, as the server sends it to one that takes gzip. */
import { get } from 'node:http'
import type { Contestant, Trial } from '../../case.ts'
import { atMost } from '../../goal.ts'
import { groundOf } from '../jobs/ground.ts'
import { createPlace } from '../jobs/place.ts'
import { startServer } from '../server/running.ts'
import { figures, openTabs } from './browser.ts'

const signalbox: Contestant = async (conditions) => {
  await using place = await createPlace(conditions, 'sqlite')
  await using server = await startServer({ kind: 'signalbox', database: place.url })
  const url = `http://127.0.0.1:${server.port}`
  const added = await fetch(`${url}/v1/jobs`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ kind: 'mail' }),
  })
  if (added.status !== 201) throw new Error(`an add was answered with ${added.status}`)
  await using tabs = await openTabs()
  const page = await tabs.open()
  const scripts = new Set<string>()
  page.on('request', (request) => {
    if (request.resourceType() === 'script') scripts.add(request.url())
  })
  await page.goto(url)
  await page.locator(figures).first().waitFor()
  if (scripts.size === 0) throw new Error('the page asked for no script')
  const sizes = await Promise.all(Array.from(scripts, gzippedBytes))
  return { kilobytes: sizes.reduce((sum, size) => sum + size, 0) / 1_000 }
}

/** Does not use fetch, which decompresses an answer before its bytes can be counted. */
function gzippedBytes(url: string): Promise<number> {
  return new Promise((resolve, reject) => {
    get(url, { headers: { 'accept-encoding': 'gzip' } }, (response) => {
      if (response.headers['content-encoding'] !== 'gzip') reject(new Error(`${url} came without gzip`))
      let bytes = 0
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length
      })
      response.on('end', () => resolve(bytes))
      response.on('error', reject)
    }).on('error', reject)
  })
}

export const firstLoadTrial: Trial = {
  name: 'first-load',
  open: groundOf('sqlite'),
  // The same bytes each time.
  rounds: 1,
  contestants: { signalbox },
  cases: [
    {
      name: 'first-load',
      unit: 'kB of script, gzip',
      better: 'lower',
      figure: 'kilobytes',
      peers: [],
      goal: atMost(150),
    },
  ],
}
