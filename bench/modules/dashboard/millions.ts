/**
 * The dashboard over a million jobs and a million rows of history. `--quick` has a tenth of them.
 *
 * The overview is measured on a server that has just started, from the start of the navigation until its figures are in the
 * page, in a browser with an empty cache. The server counts its jobs once by itself as it starts, while the browser does,
 * too: a page that comes before it has says so, asks again, and has no figures until the count is there. Then the same
 * page walks through every view; each question it asks the server is a case, with the slowest of its answers.
 */
import type { Page } from 'playwright-core'
import type { Case, Contestant, Trial } from '../../case.ts'
import { atMost } from '../../goal.ts'
import { groundOf } from '../jobs/ground.ts'
import { startServer } from '../server/running.ts'
import { figures, openTabs } from './browser.ts'
import { type FilledEngine, openFilled } from './filled.ts'
import { questions } from './questions.ts'
import { listen, walk } from './walk.ts'

const measured =
  (engine: FilledEngine): Contestant =>
  async (conditions) => {
    const database = await openFilled(conditions, engine)
    await using server = await startServer({ kind: 'signalbox', database })
    const url = `http://127.0.0.1:${server.port}`
    await using tabs = await openTabs()
    const page = await tabs.open()
    // From the first question on, which comes while the server counts.
    const asked = listen(page)
    const { slowest } = asked
    const firstMs = await usableMs(page, url)
    await walk(page, url, asked)
    return {
      firstMs,
      againMs: await usableMs(page, url),
      slowestMs: Math.max(...slowest.values()),
      ...Object.fromEntries(slowest),
    }
  }

/** Runs in the page: records when the figures appear, by a clock that began with the navigation. */
const watch = `new MutationObserver((_, observer) => {
  if (document.querySelector(${JSON.stringify(figures)}) === null) return
  window.usableMs = performance.now()
  observer.disconnect()
}).observe(document, { childList: true, subtree: true })`

async function usableMs(page: Page, url: string): Promise<number> {
  await page.addInitScript(watch)
  await page.goto(url)
  await page.locator(figures).first().waitFor()
  return await page.evaluate<number>('window.usableMs')
}

const rows = '1 M jobs and 1 M of history (quick: 100 k)'
const lower = { better: 'lower', peers: [] } as const satisfies Partial<Case>

function trialOf(engine: FilledEngine): Trial {
  return {
    name: `million-${engine}`,
    open: groundOf(engine),
    // The first one fills the database, and all walk through every view.
    rounds: 2,
    deadlineMs: 900_000,
    contestants: { signalbox: measured(engine) },
    cases: [
      {
        ...lower,
        name: `overview-${engine}`,
        unit: `ms to the figures, ${rows}`,
        figure: 'firstMs',
        goal: atMost(1_000),
      },
      {
        ...lower,
        name: `overview-again-${engine}`,
        unit: 'ms to the figures, the page opened again',
        figure: 'againMs',
        goal: atMost(1_000),
      },
      {
        ...lower,
        name: `request-slowest-${engine}`,
        unit: `ms, the slowest request of all views, ${rows}`,
        figure: 'slowestMs',
        goal: atMost(200),
      },
      ...questions.map(
        (question): Case => ({
          ...lower,
          name: `request-${engine} ${question}`,
          unit: 'ms',
          figure: question,
          goal: atMost(200),
        }),
      ),
    ],
  }
}

export const millionTrials: readonly Trial[] = [trialOf('sqlite'), trialOf('postgres')]
