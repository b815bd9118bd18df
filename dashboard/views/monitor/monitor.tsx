import type { ReactNode } from 'react'
import { Page } from '../../kit/page.tsx'
import { Link, usePlace } from '../../shell/router.tsx'
import { useWords } from '../../words/language.tsx'
import { monitorWords } from '../../words/monitor.ts'
import { shellWords } from '../../words/shell.ts'
import { Alerts } from './alerts.tsx'
import { Decisions } from './decisions.tsx'
import { Explain } from './explain.tsx'
import { Notifications } from './notifications.tsx'
import { placeOf } from './place.tsx'
import { Silences } from './subscriptions/silences.tsx'
import { Subscriptions } from './subscriptions/subscriptions.tsx'
import { Venues } from './venues.tsx'
import './monitor.css'

const parts = {
  decisions: Decisions,
  notifications: Notifications,
  subscriptions: Subscriptions,
  venues: Venues,
  silences: Silences,
  alerts: Alerts,
} as const

type Part = keyof typeof parts

/** What was notified of changes and what was not: in parts, of which `?part=` names one; or the story of one venue. */
export default function MonitorView(): ReactNode {
  const say = useWords(monitorWords)
  const sayShell = useWords(shellWords)
  const { query } = usePlace()
  const venue = placeOf(query)
  if (query.part === undefined && venue !== undefined)
    return <Explain key={JSON.stringify(venue)} venue={venue} />
  const part: Part =
    query.part !== undefined && Object.hasOwn(parts, query.part) ? (query.part as Part) : 'decisions'
  const Shown = parts[part]
  return (
    <Page title={sayShell('monitor')} lead={say('lead')}>
      <nav className="monitor-parts" aria-label={say('parts')}>
        {(Object.keys(parts) as Part[]).map((one) => (
          <Link key={one} to="monitor" query={{ part: one }} current={one === part}>
            {say(one)}
          </Link>
        ))}
      </nav>
      <Shown />
    </Page>
  )
}
