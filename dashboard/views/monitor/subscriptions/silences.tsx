import { type ReactNode, useState } from 'react'
import type { MonitorClient } from '../../../../src/http/client/index.ts'
import { Action } from '../../../kit/action.tsx'
import { Confirm } from '../../../kit/confirm.tsx'
import { Empty } from '../../../kit/empty.tsx'
import { Loaded } from '../../../kit/loaded.tsx'
import { type Column, Table } from '../../../kit/table.tsx'
import { Text } from '../../../kit/text/text.tsx'
import { Time } from '../../../kit/text/time.tsx'
import { toast } from '../../../kit/toast.tsx'
import { changed, useLive } from '../../../live/queries.ts'
import { useClient } from '../../../shell/session.ts'
import { useWords } from '../../../words/language.tsx'
import { monitorWords } from '../../../words/monitor.ts'
import { sayMatch } from './match-text.ts'
import { Silencing } from './silence-dialog.tsx'

type Silence = Awaited<ReturnType<MonitorClient['silences']>>[number]

/** Lists silences, creates and ends them. */
export function Silences(): ReactNode {
  const say = useWords(monitorWords)
  const client = useClient()
  const [makes, setMakes] = useState(false)
  const [ended, end] = useState<Silence>()
  const silences = useLive(['monitor', 'silences'], () => client.monitor.silences())
  const columns = useColumns(end)
  const make = (
    <Action scope="admin" look="main" onPress={() => setMakes(true)}>
      {say('silence')}
    </Action>
  )
  return (
    <>
      <div className="toolbar monitor-acts">{make}</div>
      <Loaded query={silences}>
        {(items) => (
          <Table
            label={say('silences')}
            rows={items}
            columns={columns}
            rowKey={({ id }) => id}
            empty={
              <Empty icon="monitor" title={say('noSilences')}>
                <p>{say('noSilencesNext')}</p>
                {make}
              </Empty>
            }
          />
        )}
      </Loaded>
      {makes && <Silencing onClose={() => setMakes(false)} />}
      {ended && <Ending silence={ended} onClose={() => end(undefined)} />}
    </>
  )
}

function useColumns(end: (silence: Silence) => void): readonly Column<Silence>[] {
  const say = useWords(monitorWords)
  return [
    {
      ...{ key: 'match', head: say('match'), grow: true },
      cell: ({ match, comment }) => (
        <span className="lines">
          <Text value={sayMatch(match, say)} cut />
          {comment !== '' && (
            <span className="aside">
              <Text value={comment} cut />
            </span>
          )}
        </span>
      ),
    },
    {
      ...{ key: 'from', head: say('from'), align: 'end', wideOnly: true },
      cell: ({ startsAt }) => <Time at={startsAt} />,
    },
    { key: 'until', head: say('until'), align: 'end', cell: ({ endsAt }) => <Time at={endsAt} /> },
    {
      ...{ key: 'act', head: say('act'), whole: true },
      cell: (silence) => (
        <Action scope="admin" look="quiet" onPress={() => end(silence)}>
          {say('end')}
        </Action>
      ),
    },
  ]
}

function Ending({
  silence: { id, match },
  onClose,
}: {
  readonly silence: Silence
  readonly onClose: () => void
}): ReactNode {
  const say = useWords(monitorWords)
  const client = useClient()
  const confirm = async () => {
    await client.monitor.unsilence(id)
    toast(say('endedDone'))
    await changed('monitor', 'audit')
  }
  return (
    <Confirm title={say('endOne')} act={say('end')} onConfirm={confirm} onClose={onClose}>
      <p>{say('endMeans', { match: sayMatch(match, say) })}</p>
    </Confirm>
  )
}
