import type { ReactNode } from 'react'
import { Section } from '../../kit/page.tsx'
import { Badge } from '../../kit/state.tsx'
import { Table } from '../../kit/table.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time } from '../../kit/text/time.tsx'
import { Link } from '../../shell/router.tsx'
import { useFormat, useWords } from '../../words/language.tsx'
import { tasksWords } from '../../words/tasks.ts'
import { TaskStatus } from './status.tsx'
import type { SeenEvent } from './use-events.ts'

/** What has happened since the page was opened, the newest first. */
export function Events({ events }: { readonly events: readonly SeenEvent[] }): ReactNode {
  const say = useWords(tasksWords)
  return (
    <Section title={say('events')}>
      <p className="aside tasks-lead">{say('eventsLead')}</p>
      <Table
        label={say('events')}
        rows={events}
        rowKey={({ nth }) => String(nth)}
        columns={[
          { key: 'when', head: say('when'), cell: ({ at }) => <Time at={at} /> },
          {
            ...{ key: 'what', head: say('what') },
            cell: ({ type }) =>
              type === 'progress' ? (
                <Badge tone="busy" icon="running">
                  {say('eventProgress')}
                </Badge>
              ) : (
                <TaskStatus status={type} />
              ),
          },
          {
            ...{ key: 'attempt', head: say('attempt'), align: 'end', wideOnly: true },
            cell: ({ attempt }) => attempt,
          },
          {
            ...{ key: 'node', head: say('node'), wideOnly: true },
            cell: (event) =>
              'nodeId' in event && event.nodeId !== null ? (
                <Link to="nodes" query={{ id: event.nodeId }}>
                  <Text value={event.nodeId} />
                </Link>
              ) : (
                <span className="aside">–</span>
              ),
          },
          { key: 'about', head: say('note'), grow: true, cell: (event) => <About event={event} /> },
        ]}
        empty={<p className="aside">{say('eventsNone')}</p>}
      />
    </Section>
  )
}

function About({ event }: { readonly event: SeenEvent }): ReactNode {
  const format = useFormat()
  if (event.type === 'progress') {
    const percent = event.percent === null ? '' : format.percent(event.percent / 100)
    return <Text value={[percent, event.note ?? ''].join(' ').trim()} cut />
  }
  if (event.type === 'failed' || event.type === 'cancelled') return <Text value={event.error.message} cut />
  return null
}
