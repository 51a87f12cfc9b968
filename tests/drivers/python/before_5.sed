# answers.py for drivers before 5; the other programs are for the newest driver alone.
/# since 5$/d
s/# before 5: //
s/\bexecute_read(/read_transaction(/
s/\bexecute_write(/write_transaction(/
