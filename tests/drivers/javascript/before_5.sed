# answers.js for drivers before 5.
/\/\/ since 5$/d
s/\bexecuteRead(/readTransaction(/
s/\bexecuteWrite(/writeTransaction(/
