import { type ReactNode, useState } from 'react'
import { Button } from '../../../kit/button.tsx'
import { Dialog } from '../../../kit/dialog.tsx'
import { kitWords } from '../../../words/kit.ts'
import { useWords } from '../../../words/language.tsx'
import { monitorWords } from '../../../words/monitor.ts'
import { ChannelForm, noChannel } from './channel-form.tsx'

/** Tests a channel before it is used. */
export function Testing({ onClose }: { readonly onClose: () => void }): ReactNode {
  const say = useWords(monitorWords)
  const sayKit = useWords(kitWords)
  const [channel, setChannel] = useState(noChannel)
  return (
    <Dialog wide title={say('testChannel')} onClose={onClose}>
      <div className="monitor-form">
        <p>{say('testMeans')}</p>
        <ChannelForm first value={channel} onChange={setChannel} />
        <div className="dialog-feet">
          <Button onPress={onClose}>{sayKit('close')}</Button>
        </div>
      </div>
    </Dialog>
  )
}
