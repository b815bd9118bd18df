import assert from 'node:assert/strict'
import { test } from 'vitest'
import { findTurnedDashboardArrows } from './dashboard-arrows.ts'
import { readDashboard } from './sources.ts'

test('the dashboard uses Signalbox through its client, and no view imports another', async () => {
  const sources = await readDashboard()
  assert.ok(sources.has('dashboard/main.tsx'))
  assert.deepEqual(findTurnedDashboardArrows(sources), [])
})

test('an import against these rules is found', () => {
  const judged = (path: string, source: string) => findTurnedDashboardArrows(new Map([[path, source]])).length
  const view = 'dashboard/views/jobs/jobs.tsx'
  assert.equal(judged(view, `import { createJobs } from '../../../src/jobs/index.ts'`), 1)
  assert.equal(judged(view, `import { routes } from '../../../src/http/contract/index.ts'`), 1)
  assert.equal(judged(view, `import type { Me } from '../../../src/http/contract/index.ts'`), 0)
  assert.equal(judged(view, `import Overview from '../overview/overview.tsx'`), 1)
  assert.equal(judged(view, `import { Charts } from '../overview/charts.tsx'`), 0)
  assert.equal(judged(view, `import { readFileSync } from 'node:fs'`), 1)
  assert.equal(judged(view, `import { createClient } from '../../../src/http/client/index.ts'`), 0)
  assert.equal(judged(view, `import { Table } from '../../kit/table.tsx'`), 0)
  assert.equal(judged('dashboard/words/jobs.ts', `import { Table } from '../kit/table.tsx'`), 1)
})
