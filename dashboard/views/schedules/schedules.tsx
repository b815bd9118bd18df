import { type ReactNode, useState } from 'react'
import type { WireSchedule } from '../../../src/http/client/index.ts'
import { Action } from '../../kit/action.tsx'
import { Empty } from '../../kit/empty.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Page } from '../../kit/page.tsx'
import { Pager } from '../../kit/pager.tsx'
import { type Column, Table } from '../../kit/table.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time } from '../../kit/text/time.tsx'
import { useLive } from '../../live/queries.ts'
import { go, Link, usePlace } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import type { Say } from '../../words/catalogue.ts'
import { useWords } from '../../words/language.tsx'
import { schedulesWords } from '../../words/schedules.ts'
import { shellWords } from '../../words/shell.ts'
import { ScheduleForm } from './form.tsx'
import { ScheduleView } from './schedule.tsx'
import './schedules.css'
import { NextRun, Standing } from './schedule-state.tsx'
import { When } from './when.tsx'

/** Every schedule, or the one that the address names. */
export default function SchedulesView(): ReactNode {
  const { name } = usePlace().query
  return name === undefined ? <All /> : <ScheduleView key={name} name={name} />
}

function All(): ReactNode {
  const say = useWords(schedulesWords)
  const sayShell = useWords(shellWords)
  const client = useClient()
  const { cursor: from } = usePlace().query
  const [adds, setAdds] = useState(false)
  const asked = from === undefined ? {} : { cursor: from }
  const schedules = useLive(['schedules', asked], () => client.jobs.schedules.list(asked), {
    everyMs: 2_000,
  })
  const add = (
    <Action scope="admin" look="main" onPress={() => setAdds(true)}>
      {say('add')}
    </Action>
  )
  return (
    <Page title={sayShell('schedules')} lead={say('lead')} actions={add}>
      <Loaded query={schedules}>
        {({ items, cursor }) => (
          <>
            <Table
              label={sayShell('schedules')}
              rows={items}
              columns={columns(say)}
              rowKey={({ name }) => name}
              onOpen={({ name }) => go('schedules', { name })}
              empty={
                <Empty icon="schedules" title={say('none')}>
                  <p>{say('noneNext')}</p>
                  <code>{example}</code>
                </Empty>
              }
            />
            <Pager next={cursor}>
              {items.length > 0 ? say('onPage', { count: items.length }) : undefined}
            </Pager>
          </>
        )}
      </Loaded>
      {adds && <ScheduleForm onClose={() => setAdds(false)} />}
    </Page>
  )
}

const example = "box.jobs.schedules.set('sweep', { everyMs: '10m', job: { kind: 'sweep' } })"

function columns(say: Say<typeof schedulesWords>): readonly Column<WireSchedule>[] {
  return [
    {
      ...{ key: 'name', head: say('name'), grow: true },
      cell: ({ name }) => (
        <Link to="schedules" query={{ name }}>
          <Text value={name} cut />
        </Link>
      ),
    },
    { key: 'status', head: say('status'), cell: (schedule) => <Standing schedule={schedule} /> },
    {
      ...{ key: 'when', head: say('when'), wideOnly: true, whole: true },
      cell: (schedule) => <When schedule={schedule} />,
    },
    { key: 'next', head: say('next'), cell: (schedule) => <NextRun schedule={schedule} /> },
    {
      ...{ key: 'last', head: say('last'), wideOnly: true },
      cell: ({ lastFiredAt }) => <Time at={lastFiredAt} />,
    },
    {
      ...{ key: 'adds', head: say('adds'), wideOnly: true },
      cell: ({ job }) => (
        <span className="lines schedules-adds">
          <Text value={job.kind} cut />
          <Link to="queue" query={{ name: job.queue }}>
            <Text value={job.queue} cut />
          </Link>
        </span>
      ),
    },
  ]
}
